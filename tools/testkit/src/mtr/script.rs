//! The language of mysqltest: text to commands.
//!
//! A statement ends at the delimiter, a line that begins with `#` or `--` at its newline, the head of `if` and `while` at its `{`.
//! What begins with a word of the language is a command, behind `--` too; any other line with `--` is a comment; the rest is
//! SQL. Quotes hide delimiters, comments of SQL do not hide quotes: that is how mysqltest reads, and its files are written for it.
//!
//! Files hold bytes of any character set. Here a text is a `String` with a character for each byte ([`widen`]), so that it can be
//! cut and searched without a thought for encodings; [`narrow`] gives the bytes back.

/// Commands of the language that begin a statement or stand behind `--`.
const WORDS: &[&str] = &[
    "append_file",
    "cat_file",
    "change_user",
    "character_set",
    "chmod",
    "connect",
    "connection",
    "copy_file",
    "copy_files_wildcard",
    "dec",
    "delimiter",
    "die",
    "diff_files",
    "dirty_close",
    "disable_abort_on_error",
    "disable_async_client",
    "disable_column_names",
    "disable_connect_log",
    "disable_cursor_protocol",
    "disable_info",
    "disable_metadata",
    "disable_non_blocking_api",
    "disable_parsing",
    "disable_prepare_warnings",
    "disable_ps2_protocol",
    "disable_ps_protocol",
    "disable_query_log",
    "disable_reconnect",
    "disable_result_log",
    "disable_rpl_parse",
    "disable_service_connection",
    "disable_session_track_info",
    "disable_testcase",
    "disable_view_protocol",
    "disable_warnings",
    "disconnect",
    "echo",
    "enable_abort_on_error",
    "enable_async_client",
    "enable_column_names",
    "enable_connect_log",
    "enable_cursor_protocol",
    "enable_info",
    "enable_metadata",
    "enable_non_blocking_api",
    "enable_parsing",
    "enable_prepare_warnings",
    "enable_ps2_protocol",
    "enable_ps_protocol",
    "enable_query_log",
    "enable_reconnect",
    "enable_result_log",
    "enable_rpl_parse",
    "enable_service_connection",
    "enable_session_track_info",
    "enable_testcase",
    "enable_view_protocol",
    "enable_warnings",
    "end",
    "end_timer",
    "error",
    "eval",
    "evalp",
    "exec",
    "exec_in_background",
    "execw",
    "exit",
    "file_exists",
    "force-cpdir",
    "force-rmdir",
    "horizontal_results",
    "if",
    "inc",
    "let",
    "list_files",
    "list_files_append_file",
    "list_files_write_file",
    "lowercase_result",
    "mkdir",
    "move_file",
    "optimizer_trace",
    "output",
    "perl",
    "ping",
    "ps_bind",
    "ps_close",
    "ps_execute",
    "ps_prepare",
    "query",
    "query_attributes",
    "query_horizontal",
    "query_vertical",
    "real_sleep",
    "reap",
    "remove_file",
    "remove_files_wildcard",
    "replace_column",
    "replace_numeric_round",
    "replace_regex",
    "replace_result",
    "require",
    "reset_connection",
    "result_format",
    "rmdir",
    "save_master_pos",
    "send",
    "send_eval",
    "send_quit",
    "send_shutdown",
    "server_start",
    "server_stop",
    "shutdown_server",
    "skip",
    "sleep",
    "sorted_result",
    "partially_sorted_result",
    "source",
    "start_timer",
    "sync_slave_with_master",
    "sync_with_master",
    "system",
    "vertical_results",
    "wait_for_slave_to_stop",
    "while",
    "write_file",
    "write_line",
];

/// Blocks within blocks at most.
const DEPTH_MAX: usize = 64;

/// A command with the line on which it begins, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Line of the file.
    pub line: usize,
    /// What to do.
    pub kind: Kind,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A statement for the server.
    Sql(String),
    /// A command of the language and the text behind its name.
    Word(&'static str, String),
    /// `if (CONDITION) { BODY }`.
    If(String, Vec<Command>),
    /// `while (CONDITION) { BODY }`.
    While(String, Vec<Command>),
}

/// A character for each byte.
pub fn widen(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| byte as char).collect()
}

/// The bytes of a text of [`widen`].
pub fn narrow(text: &str) -> Vec<u8> {
    text.chars().map(|char| char as u8).collect()
}

/// For people: as UTF-8, bytes that are none replaced.
pub fn readable(text: &str) -> String {
    String::from_utf8_lossy(&narrow(text)).into_owned()
}

/// Reads a whole file; `Err` names the line that cannot be read.
pub fn parse(bytes: &[u8]) -> Result<Vec<Command>, String> {
    let mut reader = Reader { bytes, at: 0, line: 1, delimiter: b";".to_vec() };
    let mut commands = Vec::new();
    loop {
        commands.extend(reader.block(0)?);
        // A `}` too many is passed over, as what stands behind it can still be read.
        if reader.at >= bytes.len() {
            return Ok(commands);
        }
    }
}

/// A piece of the file between two ends.
enum Piece {
    /// Up to a delimiter, or the end of the file.
    Statement(String),
    /// A line with `#` or `-` at its beginning.
    Line(String),
    /// The head of a block, without its `{`.
    Head(String),
    /// `}`.
    Close,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    delimiter: Vec<u8>,
}

impl Reader<'_> {
    fn block(&mut self, depth: usize) -> Result<Vec<Command>, String> {
        if depth > DEPTH_MAX {
            return Err(format!("line {}: too many blocks within blocks", self.line));
        }
        let mut commands = Vec::new();
        while let Some((line, piece)) = self.piece() {
            match piece {
                Piece::Close => return Ok(commands),
                Piece::Head(head) => {
                    let condition = head.trim_start_matches(|char: char| char.is_ascii_alphabetic());
                    let (condition, body) = (condition.trim().to_string(), self.block(depth + 1)?);
                    let kind = match head[..1].eq_ignore_ascii_case("i") {
                        true => Kind::If(condition, body),
                        false => Kind::While(condition, body),
                    };
                    commands.push(Command { line, kind });
                }
                Piece::Line(text) => {
                    let Some(text) = text.strip_prefix("--") else { continue };
                    if let Some((word, rest)) = command_word(text.trim_start()) {
                        let rest = rest.trim().trim_end_matches(';').trim_end().to_string();
                        self.command(line, word, rest, &mut commands);
                    }
                }
                Piece::Statement(text) => match command_word(&text) {
                    Some((word, rest)) => {
                        self.command(line, word, rest.trim().to_string(), &mut commands);
                    }
                    None if text.trim().is_empty() => {}
                    None => commands.push(Command { line, kind: Kind::Sql(text.trim_end().to_string()) }),
                },
            }
        }
        Ok(commands)
    }

    /// Keeps a command, or does at once what concerns reading itself.
    fn command(&mut self, line: usize, word: &'static str, rest: String, commands: &mut Vec<Command>) {
        match word {
            "delimiter" if !rest.is_empty() => self.delimiter = narrow(&rest),
            "disable_parsing" => self.skip_to_parsing(),
            "enable_parsing" | "delimiter" | "end" => {}
            "perl" | "write_file" | "append_file" => {
                let end = if word == "perl" { 0 } else { 1 };
                let mark = rest.split_whitespace().nth(end).unwrap_or("EOF").to_string();
                self.skip_document(&mark);
                commands.push(Command { line, kind: Kind::Word(word, rest) });
            }
            _ => commands.push(Command { line, kind: Kind::Word(word, rest) }),
        }
    }

    /// The next piece with its first line; `None` at the end of the file.
    fn piece(&mut self) -> Option<(usize, Piece)> {
        while self.bytes.get(self.at)?.is_ascii_whitespace() {
            self.step();
        }
        let (line, first, start) = (self.line, self.bytes[self.at], self.at);
        match first {
            b'#' | b'-' => {
                let text = self.rest_of_line();
                return Some((line, Piece::Line(widen(text.trim_ascii_end()))));
            }
            b'}' => {
                self.at += 1;
                return Some((line, Piece::Close));
            }
            _ => {}
        }
        let head = [&b"if"[..], b"while"].iter().any(|word| {
            self.bytes[start..].get(..word.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(word))
        });
        let (mut quote, mut escaped) = (None, false);
        while let Some(&byte) = self.bytes.get(self.at) {
            match quote {
                None if self.bytes[self.at..].starts_with(&self.delimiter) => {
                    let text = widen(&self.bytes[start..self.at]);
                    (0..self.delimiter.len()).for_each(|_| self.step());
                    return Some((line, Piece::Statement(text)));
                }
                None if byte == b'{' && head => {
                    let text = widen(&self.bytes[start..self.at]);
                    self.at += 1;
                    return Some((line, Piece::Head(text)));
                }
                None if matches!(byte, b'\'' | b'"' | b'`') && !escaped => quote = Some(byte),
                Some(open) if byte == open && !escaped => quote = None,
                _ => {}
            }
            escaped = byte == b'\\' && !escaped;
            self.step();
        }
        Some((line, Piece::Statement(widen(&self.bytes[start..]))))
    }

    fn step(&mut self) {
        self.line += (self.bytes.get(self.at) == Some(&b'\n')) as usize;
        self.at += 1;
    }

    fn rest_of_line(&mut self) -> &[u8] {
        let start = self.at;
        let len = self.bytes[start..].iter().position(|&byte| byte == b'\n');
        let end = len.map_or(self.bytes.len(), |len| start + len);
        self.at = (end + 1).min(self.bytes.len());
        self.line += 1;
        &self.bytes[start..end]
    }

    fn skip_to_parsing(&mut self) {
        while self.at < self.bytes.len() {
            let line = self.rest_of_line();
            let text = line.trim_ascii().strip_prefix(b"--").unwrap_or(line).trim_ascii();
            if text.starts_with(b"enable_parsing") {
                return;
            }
        }
    }

    /// Passes over the lines up to the one that is `mark`.
    fn skip_document(&mut self, mark: &str) {
        if self.bytes.get(self.at) == Some(&b'\n') {
            self.step();
        }
        while self.at < self.bytes.len() {
            let line = self.rest_of_line();
            if line.starts_with(mark.as_bytes()) {
                return;
            }
        }
    }
}

/// The command that a statement begins with, and what follows.
fn command_word(text: &str) -> Option<(&'static str, &str)> {
    let end = text.find(|char: char| char.is_ascii_whitespace() || matches!(char, '(' | ';'));
    let (first, rest) = text.split_at(end.unwrap_or(text.len()));
    let word = WORDS.iter().find(|word| first.eq_ignore_ascii_case(word))?;
    Some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        parse(text.as_bytes()).unwrap().into_iter().map(|command| command.kind).collect()
    }

    fn sql(text: &str) -> Kind {
        Kind::Sql(text.into())
    }

    #[test]
    fn statements_end_at_the_delimiter_and_lines_at_their_newline() {
        let found = kinds("# note; no\nSELECT ';' ,\n 1;--echo a; b\n-- words of people\nselect 2;");
        assert_eq!(found, [sql("SELECT ';' ,\n 1"), Kind::Word("echo", "a; b".into()), sql("select 2")]);
        let lines: Vec<usize> =
            parse(b"\n\nselect\n1;\n\nselect 2;").unwrap().iter().map(|c| c.line).collect();
        assert_eq!(lines, [3, 6]);
    }

    #[test]
    fn the_delimiter_changes() {
        let found = kinds("delimiter |;\nbegin; select 1; end|\ndelimiter ;|\nselect 3;");
        assert_eq!(found, [sql("begin; select 1; end"), sql("select 3")]);
    }

    #[test]
    fn blocks_hold_commands() {
        let found = kinds("if (`select '{'`)\n{\n  let $a= 1;\n while ($a) { dec $a; }\n}\nselect 1;");
        let body = |kinds: Vec<(usize, Kind)>| {
            kinds.into_iter().map(|(line, kind)| Command { line, kind }).collect::<Vec<_>>()
        };
        let inner = Kind::While("($a)".into(), body(vec![(4, Kind::Word("dec", "$a".into()))]));
        let outer = body(vec![(3, Kind::Word("let", "$a= 1".into())), (4, inner)]);
        assert_eq!(found, [Kind::If("(`select '{'`)".into(), outer), sql("select 1")]);
    }

    #[test]
    fn what_is_not_parsed_is_passed_over() {
        let found =
            kinds("--disable_parsing\nselect 'x;\n--enable_parsing\nselect 1;\n--perl\ndie;\nEOF\nselect 2;");
        assert_eq!(found, [sql("select 1"), Kind::Word("perl", String::new()), sql("select 2")]);
        let found = kinds("write_file $f END;\na;\nEND\nselect 1;");
        assert_eq!(found, [Kind::Word("write_file", "$f END".into()), sql("select 1")]);
    }

    #[test]
    fn bytes_of_any_character_set_survive() {
        let found = parse(b"select '\xe9';").unwrap();
        let Kind::Sql(text) = &found[0].kind else { panic!() };
        assert_eq!(narrow(text), b"select '\xe9'");
    }

    #[test]
    fn blocks_have_a_bound_and_broken_ones_end() {
        assert!(parse("if (1) {\n".repeat(100).as_bytes()).is_err());
        assert_eq!(kinds("}\n}\nselect 1"), [sql("select 1")]);
        assert!(matches!(&kinds("while (1) { echo a;")[..], [Kind::While(..)]));
    }
}
