//! Whatever the text, the parser answers: a tree or an error, never a panic, never an overrun stack.

use keel_sql::digest::{Scratch, digest};
use keel_sql::{ParseOptions, parse, printer};
use std::path::PathBuf;

/// A small generator, so that a printed seed gives the same texts everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn corpus() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut texts = Vec::new();
    for file in ["statements.txt", "errors.txt"] {
        let content = std::fs::read_to_string(folder.join(file)).unwrap();
        texts
            .extend(content.split("\n\n").filter_map(|block| Some(block.split_once("\n----")?.0.to_owned())));
    }
    texts
}

fn modes(bits: u64) -> ParseOptions {
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

/// What a fuzzer runs: parse, print, parse again, fingerprint.
fn check(text: &[u8], options: &ParseOptions, scratch: &mut Scratch) {
    let fingerprint = digest(text, options, scratch);
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

fn mutate(random: &mut Random, corpus: &[String]) -> Vec<u8> {
    let mut text = corpus[random.below(corpus.len())].clone().into_bytes();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(6) {
            0 if at < text.len() => {
                text.remove(at);
            }
            1 => text.insert(at, (random.next() & 0xff) as u8),
            2 => {
                let symbols = b"()'\"`,;.*?@/*-+ #\\x0!=<>|&";
                text.insert(at, symbols[random.below(symbols.len())]);
            }
            3 => text.truncate(at),
            4 => {
                let end = at + random.below(text.len() - at + 1);
                let piece = text[at..end].to_vec();
                let to = random.below(text.len() + 1);
                text.splice(to..to, piece);
            }
            _ => {
                let other = corpus[random.below(corpus.len())].as_bytes();
                let start = random.below(other.len());
                text.splice(at..at, other[start..].iter().copied());
            }
        }
    }
    text
}

#[test]
fn mutated_statements_never_panic() {
    const TEXTS: usize = 20_000;
    let seed = 0x6b65_656c;
    let mut random = Random(seed);
    let corpus = corpus();
    let mut scratch = Scratch::default();
    for round in 0..TEXTS {
        let text = mutate(&mut random, &corpus);
        let options = if round % 2 == 0 { modes(64) } else { modes(random.next()) };
        let shown = String::from_utf8_lossy(&text).into_owned();
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&text, &options, &mut scratch)));
        assert!(caught.is_ok(), "seed {seed:#x}, round {round}, {options:?}: {shown}");
    }
}

/// A fiber's stack, of which a session's own frames take a part.
const STACK_BYTES: usize = 192 << 10;

#[test]
fn deep_nesting_is_error_1436_within_a_fibers_stack() {
    let deep = |open: &str, core: &str, close: &str, times: usize| {
        format!("select {}{core}{}", open.repeat(times), close.repeat(times))
    };
    let mut texts = Vec::new();
    for times in [10, 50, 100, 1_000, 10_000] {
        texts.push(deep("(", "1", ")", times));
        texts.push(deep("(select ", "1", ")", times));
        texts.push(deep("((select ", "1", ")+1)", times));
        texts.push(deep("abs(", "1", ")", times));
        texts.push(deep("not ", "1", "", times));
        texts.push(deep("- ", "1", "", times));
        texts.push(deep("case when ", "1", " then 1 end", times));
        texts.push(deep("1 in (", "1", ")", times));
        texts.push(deep("1 between ", "1", " and 1", times));
        texts.push(deep("1 like 1 not like ", "1", "", times));
        texts.push(deep("interval ", "1", " day + 1", times));
        texts.push(deep("", "1", " + 1", times));
        texts.push(deep("", "1", " or 1", times));
        texts.push(deep("", "1", " = 1", times));
        texts.push(deep("", "1", " union select 1", times));
        texts.push("select * from t".to_owned() + &" join t on 1".repeat(times));
        texts.push("select * from t".to_owned() + &" join t".repeat(times));
        texts.push(format!("select * from {}t{}", "(".repeat(times), ")".repeat(times)));
        texts.push(format!("select * from {}t{}", "(select * from ".repeat(times), ") x".repeat(times)));
        texts.push(format!("select * from {}t{}", "((select 1) x join ".repeat(times), ")".repeat(times)));
        texts.push("explain ".repeat(times) + "select 1");
        texts.push("(".repeat(times) + "select 1" + &")".repeat(times));
    }
    let run = move || {
        let mut scratch = Scratch::default();
        let mut refused = 0;
        for text in &texts {
            check(text.as_bytes(), &ParseOptions::default(), &mut scratch);
            if let Err(error) = parse(text.as_bytes(), &ParseOptions::default()) {
                refused += usize::from(error.code == keel_base::code::STACK_OVERRUN_NEED_MORE);
            }
        }
        assert!(refused > 30, "{refused}");
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

#[test]
fn parentheses_cost_linear_time() {
    // Each level may begin a query, a row or an operand; deciding it twice would double the work at every level.
    let text = format!("select {}1{}", "((select ".repeat(40), ")+1)".repeat(40));
    let from = format!("select * from {}t{}", "((select 1) x join ".repeat(40), ")".repeat(40));
    let options = ParseOptions { depth_max: 400, ..ParseOptions::default() };
    let run = move || {
        for text in [text, from] {
            assert!(parse(text.as_bytes(), &options).is_ok(), "{text}");
        }
    };
    std::thread::Builder::new().stack_size(16 << 20).spawn(run).unwrap().join().unwrap();
}
