//! However deep a statement nests, the parser answers within a fiber's stack and in linear time.

use keel_fuzz::check_sql;
use keel_sql::{ParseOptions, parse};

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
        for chain in [" + 1", " = 1", " is null", " + interval 1 day", " collate utf8mb4_bin"] {
            let link = format!("{})", chain.repeat(100));
            texts.push(deep("(", "1", &link, times));
            texts.push(deep("abs(", "1", &link, times));
        }
        let joins = format!("{})", " join t on 1".repeat(100));
        texts.push(format!("select * from {}t{}", "(".repeat(times), joins.repeat(times)));
        let commas = format!("{})", ", t".repeat(100));
        texts.push(format!("select * from {}t join t{}", "(".repeat(times), commas.repeat(times)));
        texts.push("explain ".repeat(times) + "select 1");
        texts.push("(".repeat(times) + "select 1" + &")".repeat(times));
    }
    let run = move || {
        let mut refused = 0;
        for text in &texts {
            check_sql(text.as_bytes(), &ParseOptions::default());
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
