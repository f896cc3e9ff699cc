//! Golden files: what the parser makes of a text.
//!
//! Each block of `testdata/*.txt` is a statement, a line of four dashes, and the answer. `KEEL_UPDATE_GOLDENS=1` writes the answers anew, but
//! for `errors.txt`, whose answers are MariaDB 10.11's own.

use keel_sql::{ParseOptions, parse};
use std::path::PathBuf;

struct Block {
    text: String,
    answer: String,
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file)
}

fn blocks(file: &str) -> Vec<Block> {
    let content = std::fs::read_to_string(path(file)).unwrap();
    let mut blocks = Vec::new();
    for block in content.split("\n\n") {
        let (text, answer) = block.split_once("\n----\n").unwrap_or_else(|| panic!("{file}: {block}"));
        blocks.push(Block {
            text: unescape(text.trim_start_matches('\n')),
            answer: unescape(answer.trim_end()),
        });
    }
    blocks
}

/// Line ends stand as `\n`, so that a block has one line for each.
fn unescape(line: &str) -> String {
    line.replace("\\n", "\n")
}

fn options() -> ParseOptions {
    ParseOptions { version: 101_119, ..ParseOptions::default() }
}

#[test]
fn errors_are_mariadbs() {
    let mut wrong = Vec::new();
    for Block { text, answer } in blocks("errors.txt") {
        let got = match parse(text.as_bytes(), &options()) {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("ERROR {}: {}", error.code, error.message),
        };
        if got != answer {
            wrong.push(format!("{text}\n   want {answer}\n   got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
