//! Whatever the text, the parser answers: a tree or an error. What it prints of a tree parses to the same tree, and the
//! digest counts the literals that the parser counts.

use std::path::PathBuf;

use keel_sql::digest::{Scratch, digest};
use keel_sql::{ParseOptions, parse, printer};

/// The parser's options, a bit each.
fn modes(bits: u8) -> ParseOptions {
    ParseOptions {
        ansi_quotes: bits & 1 != 0,
        pipes_as_concat: bits & 2 != 0,
        no_backslash_escapes: bits & 4 != 0,
        ignore_space: bits & 8 != 0,
        high_not_precedence: bits & 16 != 0,
        multi_statements: bits & 32 != 0,
        prepare: bits & 64 != 0,
        ..ParseOptions::default()
    }
}

/// Parses, prints, parses again, fingerprints.
pub fn check(text: &[u8], options: &ParseOptions) {
    let mut scratch = Scratch::default();
    let fingerprint = digest(text, options, &mut scratch);
    let Ok(parsed) = parse(text, options) else { return };
    assert!(parsed.rest_offset.is_none_or(|rest| rest <= text.len()));
    if fingerprint.is_some() {
        assert_eq!(parsed.literals.len(), scratch.literals.len());
    }
    let plain = !options.no_backslash_escapes && !options.ansi_quotes && !options.pipes_as_concat;
    let Some(printed) = printer::statement(&parsed.statement).filter(|_| plain && text.is_ascii()) else {
        return;
    };
    let again = parse(printed.as_bytes(), &ParseOptions { prepare: true, ..ParseOptions::default() });
    match again {
        Ok(again) => assert_eq!(again.statement, parsed.statement, "{printed}"),
        // Printing may add a level of parentheses to a tree that is as deep as can be.
        Err(error) => assert_eq!(error.code, keel_base::code::STACK_OVERRUN_NEED_MORE, "{printed}: {error}"),
    }
}

/// The first byte is the options, the rest the text.
pub fn run(data: &[u8]) {
    let Some((bits, text)) = data.split_first() else { return };
    check(text, &modes(*bits));
}

/// The statements of the parser's own tests.
pub fn samples() -> Vec<Vec<u8>> {
    let texts = statements();
    texts.iter().map(|text| [&[64], text.as_bytes()].concat()).collect()
}

/// Texts of statements, good ones and bad ones.
pub fn statements() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crates/sql/testdata");
    let mut texts = Vec::new();
    for file in ["statements.txt", "errors.txt"] {
        let content = std::fs::read_to_string(folder.join(file)).expect("the parser's test data");
        texts
            .extend(content.split("\n\n").filter_map(|block| Some(block.split_once("\n----")?.0.to_owned())));
    }
    texts
}
