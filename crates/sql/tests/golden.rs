//! Golden files: what the parser makes of a text.
//!
//! Each block of `testdata/*.txt` is a statement, a line of four dashes, and the answer. `KEEL_UPDATE_GOLDENS=1` writes the answers anew, but
//! for `errors.txt`, whose answers are MariaDB 10.11's own.

use keel_sql::ast::{QueryBody, SelectItem, Statement};
use keel_sql::digest::{Scratch, digest};
use keel_sql::{Literal, ParseOptions, parse, printer, value_of};
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
            answer: answer.trim_end().to_owned(),
        });
    }
    blocks
}

/// Line ends stand as `\n`, so that a block has one line for each.
fn unescape(line: &str) -> String {
    line.replace("\\n", "\n")
}

fn escape(answer: &str) -> String {
    answer.replace('\n', "\\n")
}

fn options() -> ParseOptions {
    ParseOptions { version: 101_119, prepare: true, ..ParseOptions::default() }
}

/// The statement printed back, or its tree where it is never printed.
fn answer(text: &str) -> String {
    match parse(text.as_bytes(), &options()) {
        Ok(parsed) => {
            printer::statement(&parsed.statement).unwrap_or_else(|| format!("{:?}", parsed.statement))
        }
        Err(error) => format!("ERROR {}: {}", error.code, error.message),
    }
}

#[test]
fn errors_are_mariadbs() {
    let mut wrong = Vec::new();
    for Block { text, answer } in blocks("errors.txt") {
        let got = match parse(text.as_bytes(), &ParseOptions { prepare: false, ..options() }) {
            Ok(_) => "ok".to_owned(),
            Err(error) => escape(&format!("ERROR {}: {}", error.code, error.message)),
        };
        if got != answer {
            wrong.push(format!("{text}\n   want {answer}\n   got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn statements_have_their_trees() {
    let file = "statements.txt";
    if std::env::var_os("KEEL_UPDATE_GOLDENS").is_some() {
        let blocks = blocks(file);
        let lines = blocks
            .iter()
            .map(|block| format!("{}\n----\n{}\n", escape(&block.text), escape(&answer(&block.text))));
        std::fs::write(path(file), lines.collect::<Vec<_>>().join("\n")).unwrap();
        return;
    }
    for Block { text, answer: want } in blocks(file) {
        assert_eq!(escape(&answer(&text)), want, "{text}");
    }
}

#[test]
fn printed_trees_parse_back_to_themselves() {
    for Block { text, .. } in blocks("statements.txt") {
        let Ok(parsed) = parse(text.as_bytes(), &options()) else { continue };
        let Some(printed) = printer::statement(&parsed.statement) else { continue };
        match parse(printed.as_bytes(), &options()) {
            Ok(again) => assert_eq!(again.statement, parsed.statement, "{text}\n{printed}"),
            Err(error) => panic!("{text}\n{printed}\n{error}"),
        }
    }
}

#[test]
fn digest_and_parser_count_the_same_literals() {
    let mut scratch = Scratch::default();
    for Block { text, .. } in blocks("statements.txt").into_iter().chain(blocks("errors.txt")) {
        let Ok(parsed) = parse(text.as_bytes(), &options()) else { continue };
        assert!(digest(text.as_bytes(), &options(), &mut scratch).is_some(), "{text}");
        let places = |literals: &[Literal]| -> Vec<_> {
            literals.iter().map(|literal| (literal.span.start, literal.span.end, literal.kind)).collect()
        };
        assert_eq!(places(&parsed.literals), places(&scratch.literals), "{text}");
        for literal in parsed.literals.iter().filter(|literal| !literal.fixed) {
            let value = value_of(literal.kind, literal.span.of(text.as_bytes()), &options()).unwrap();
            let shown = format!("{value:?}");
            let tree = format!("{:?}", parsed.statement);
            assert!(tree.contains(&shown), "{text}: {shown} is not in {tree}");
        }
    }
}

#[test]
fn comments_follow_a_semicolon() {
    let several = ParseOptions { multi_statements: true, ..options() };
    for (text, rest) in
        [("select 1;/* x */", Some(9)), ("select 1; -- x\n ; ", Some(10)), ("select 1 ; ;", None)]
    {
        assert_eq!(parse(text.as_bytes(), &options()).unwrap().rest_offset, None, "{text}");
        assert_eq!(parse(text.as_bytes(), &several).unwrap().rest_offset, rest, "{text}");
    }
}

/// Texts of the literals that a plan may not take as parameters.
fn fixed(text: &str) -> Vec<String> {
    let parsed = parse(text.as_bytes(), &options()).unwrap();
    let fixed = parsed.literals.iter().filter(|literal| literal.fixed);
    fixed.map(|literal| String::from_utf8_lossy(literal.span.of(text.as_bytes())).into_owned()).collect()
}

#[test]
fn literals_that_shape_the_plan_are_fixed() {
    let none: [&str; 0] = [];
    assert_eq!(fixed("select c from t where id = 5 and d in (6, 'x') limit 7"), none);
    assert_eq!(fixed("select a + 1 as b, 2 from t where c = 3"), ["2"], "its text is the column's name");
    assert_eq!(fixed("select a from t order by 1, a + 2"), ["1"], "an ordinal");
    assert_eq!(fixed("select a + 1 as b from t where c = 2 group by a + 1 having d > 3"), ["1", "1", "3"]);
    assert_eq!(
        fixed("select cast(a as char(10)) as b from t where d = date '2024-01-02'"),
        ["10", "'2024-01-02'"]
    );
    assert_eq!(fixed("select a as 'x' from t where b = _latin1'y' and c = 'z'"), ["'x'", "'y'"]);
    assert_eq!(fixed("insert into t values (1, 'a'), (-2, now(3))"), ["3"]);
}

#[test]
fn columns_are_named_by_their_text() {
    let names = |text: &str| -> Vec<String> {
        let parsed = parse(text.as_bytes(), &options()).unwrap();
        let Statement::Query(query) = parsed.statement else { panic!("{text}") };
        let QueryBody::Select(select) = query.body else { panic!("{text}") };
        let name = |item: SelectItem| match item {
            SelectItem::Expr { alias, text, .. } => alias.unwrap_or(text.0),
            SelectItem::Wildcard { .. } => "*".to_owned(),
        };
        select.items.into_iter().map(name).collect()
    };
    assert_eq!(
        names(
            "select 1 +  1, (1), ((1+1)), nUll, \\N, TRUE, 'x y ', ' lead' 'x', -1, t.`a b`, (b), count( * ), 1.50, N'q', x'41' from t"
        ),
        [
            "1 +  1",
            "1",
            "((1+1))",
            "NULL",
            "NULL",
            "TRUE",
            "x y ",
            "leadx",
            "-1",
            "a b",
            "b",
            "count( * )",
            "1.50",
            "q",
            "x'41'"
        ],
    );
    assert_eq!(names("select 1 /*! +1 */, 2 /*!50101+1 */ from t"), ["1  +1", "2 +1"]);
    assert_eq!(names("select true or false /* hi */ , 1 -- foo\n+2"), ["true or false", "1 -- foo\n+2"]);
}

/// Names that begin with NUL are the server's own.
#[test]
fn no_name_has_a_nul() {
    for text in ["SELECT `\0a`.b FROM t", "SELECT 1 AS `a\0`", "DELETE `\0x` FROM t AS `\0x`, u"] {
        assert!(keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default()).is_err(), "{text:?}");
    }
}
