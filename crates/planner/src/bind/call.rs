//! Function calls: lookup by name, argument counts, types; functions with a syntax of their own.

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_expr::eval::problem_error;
use keel_expr::typing::{self, STRING_DECIMALS};
use keel_expr::{CompareOp, Derivation, Expr, Node, func};
use keel_sql::ast::{self, FunctionCall, IntervalUnit, TrimSide};
use keel_value::collation::Charset;
use keel_value::types::{Class, Format};
use keel_value::{CollationId, SqlType, TypeKind, Value, convert};

use super::Binder;
use crate::check;

/// Functions that look at the bytes of their argument, or tell its character set.
const OF_OCTETS: [&str; 17] = [
    "ascii",
    "bit_length",
    "char_length",
    "character_length",
    "charset",
    "collation",
    "coercibility",
    "crc32",
    "hex",
    "length",
    "md5",
    "octet_length",
    "ord",
    "sha",
    "sha1",
    "sha2",
    "to_base64",
];

/// Functions that cut one end off, blanks where nothing else is said.
const TRIMS: &[&str] = &["ltrim", "rtrim", "ltrim_oracle", "rtrim_oracle"];

/// What NAME_CONST() takes: literals, with a sign or a collation.
fn is_basic_constant(tree: &ast::Expr) -> bool {
    match tree {
        ast::Expr::Literal(_) => true,
        ast::Expr::Unary { op: ast::UnaryOp::Minus, expr } | ast::Expr::Collate { expr, .. } => {
            is_basic_constant(expr)
        }
        _ => false,
    }
}

impl Binder<'_> {
    pub(super) fn call(&mut self, call: &FunctionCall) -> SqlResult<Expr> {
        if let Some(over) = &call.over {
            return self.window_call(call, over);
        }
        if let Some(db) = &call.db {
            if db.eq_ignore_ascii_case("sys")
                && let Some(function) = func::lookup(&format!("sys.{}", call.name))
            {
                return self.call_of_sys(call, function);
            }
            return Err(match call.spaced {
                true => self.missing_namesake(db, &call.written),
                false => self.missing_function(db, &call.written),
            });
        }
        if self.cx.session.database.as_deref() == Some("sys")
            && func::lookup(&call.name).is_none()
            && let Some(function) = func::lookup(&format!("sys.{}", call.name))
        {
            return self.call_of_sys(call, function);
        }
        if call.named.0 {
            return Err(named_arguments(call));
        }
        if call.spaced {
            return Err(self.unknown_apart(&call.written));
        }
        // TRIM(LEADING x FROM y) alone gives these a second argument.
        if TRIMS.contains(&call.name.as_str()) && call.args.len() != 1 {
            return Err(errors::wrong_paramcount_to_native_fct(&call.written.0));
        }
        if call.name == "name_const" && call.args.len() == 2 && !call.args.iter().all(is_basic_constant) {
            return Err(errors::wrong_arguments("NAME_CONST"));
        }
        if let Some(aggregate) = self.aggregate(call)? {
            return Ok(aggregate);
        }
        let mut args = Vec::with_capacity(call.args.len());
        let of_octets = OF_OCTETS.contains(&call.name.as_str());
        for arg in &call.args {
            args.push(if of_octets { self.octets_argument(arg)? } else { self.scalar(arg)? });
        }
        self.with_name(&call.name, &call.written, args)
    }

    /// A call of a function that is a stored one in MariaDB.
    fn call_of_sys(&mut self, call: &FunctionCall, function: &func::Function) -> SqlResult<Expr> {
        let count = call.args.len();
        if count < function.min || count > function.max {
            return Err(errors::sp_wrong_no_of_args("FUNCTION", function.name, function.max, count));
        }
        let args: SqlResult<Vec<Expr>> = call.args.iter().map(|arg| self.scalar(arg)).collect();
        self.with_name(function.name, function.name, args?)
    }

    /// A call of a built-in function by its name in lower case.
    pub(crate) fn named_call(&mut self, name: &str, args: Vec<Expr>) -> SqlResult<Expr> {
        self.with_name(name, name, args)
    }

    fn with_name(&mut self, name: &str, written: &str, mut args: Vec<Expr>) -> SqlResult<Expr> {
        if let Some(special) = self.special(name, written, &mut args)? {
            return Ok(special);
        }
        let Some(function) = func::lookup(name) else {
            return Err(match (name, args.len()) {
                // There is no binary log that it could look into.
                ("binlog_gtid_pos", 2) => errors::no_binary_logging(),
                ("binlog_gtid_pos", _) => errors::wrong_paramcount_to_native_fct(written),
                _ => self.unknown_function(name, written),
            });
        };
        if args.len() < function.min
            || args.len() > function.max
            || func::json::lacks_partner(function, args.len())
        {
            return Err(errors::wrong_paramcount_to_native_fct(written));
        }
        if let Some(by) = func::kept_by(function, &args) {
            let constant = args.get(by).is_some_and(Expr::is_constant);
            let cell = if constant { i64::from(self.new_once()) } else { -1 };
            args.push(Expr::constant(Value::Int(cell), SqlType::bigint()));
        }
        if let Some(arg) = args.iter().find(|arg| arg.ty.is_fixed())
            && func::refuses_fixed(function)
        {
            typing::refuse_fixed(arg, name)?;
        }
        self.saw_volatile |= !function.pure;
        func::json::read_as_written(function.name, &mut args);
        self.note_odd_lengths(function.name, &args);
        let (ty, maybe_null) = (function.typing)(self.cx.session, &mut args)?;
        // In strict mode MariaDB takes any function of text for one that may be NULL.
        let by_arguments = function.null_by_arguments && !self.cx.session.is_strict();
        let nullable = if by_arguments { func::any_nullable(&args) } else { maybe_null };
        let derivation = if ty.is_string() { func::derivation(function, &args) } else { Derivation::Numeric };
        Ok(Expr { node: Node::Call(function, args.into()), ty, nullable, derivation })
    }

    /// Notes constant texts that are no integers where the type of a call depends on them: MariaDB reads them once for the type.
    fn note_odd_lengths(&mut self, name: &str, args: &[Expr]) {
        let places: &[usize] = match name {
            "space" | "random_bytes" => &[0],
            "repeat" | "left" | "right" | "lpad" | "rpad" | "round" | "truncate" | "format" => &[1],
            "substring" | "substr" | "mid" => &[1, 2],
            _ => return,
        };
        for arg in places.iter().filter_map(|place| args.get(*place)).filter(|arg| arg.ty.is_string()) {
            let value = match &arg.node {
                Node::Constant(value) => value.clone(),
                Node::Param(index) if self.cx.params.literals.is_some() => {
                    let Some(value) = self.cx.params.values.get(*index as usize).cloned() else { continue };
                    self.pin_index(*index);
                    value
                }
                _ => continue,
            };
            let odd_lengths = &mut self.odd_lengths;
            convert::to_i64(value.as_ref(), &arg.ty, &mut |problem| odd_lengths.push(problem_error(problem)));
        }
    }

    fn unknown_function(&self, name: &str, written: &str) -> SqlError {
        if func::is_missing(name) {
            return errors::not_supported_yet(format!("{}()", name.to_uppercase()));
        }
        match &self.cx.session.database {
            Some(db) => self.missing_function(db, written),
            None => errors::sp_does_not_exist("FUNCTION", written),
        }
    }

    /// 1305 for a stored function; 1370 if the session may not execute functions of that database.
    #[cold]
    fn missing_function(&self, db: &str, name: &str) -> SqlError {
        match self.may_execute(db, name) {
            Ok(()) => errors::sp_does_not_exist("FUNCTION", format_args!("{db}.{name}")),
            Err(denied) => denied,
        }
    }

    /// 1630 for a stored function that has the name of one of the grammar.
    #[cold]
    fn missing_namesake(&self, db: &str, name: &str) -> SqlError {
        match self.may_execute(db, name) {
            Ok(()) => errors::func_inexistent_name_collision(format!("{db}.{name}")),
            Err(denied) => denied,
        }
    }

    fn may_execute(&self, db: &str, function: &str) -> SqlResult<()> {
        let (session, accounts) = (self.cx.session, &self.cx.catalog.accounts);
        check::routine(session, accounts, (db, function), Privileges::EXECUTE)
    }

    /// 1630 for a function's name that stands apart from its parenthesis.
    #[cold]
    fn unknown_apart(&self, written: &str) -> SqlError {
        match &self.cx.session.database {
            Some(db) => self.missing_namesake(db, written),
            None => errors::sp_does_not_exist("FUNCTION", written),
        }
    }

    /// Functions that are nodes of their own.
    fn special(&mut self, name: &str, written: &str, args: &mut Vec<Expr>) -> SqlResult<Option<Expr>> {
        let wrong = || errors::wrong_paramcount_to_native_fct(written);
        let take = |args: &mut Vec<Expr>| std::mem::take(args).into_iter();
        Ok(Some(match name {
            "if" | "nvl2" => {
                if args.len() != 3 {
                    return Err(wrong());
                }
                let mut args = take(args);
                let (mut condition, yes, no) =
                    (args.next().expect("3"), args.next().expect("3"), args.next().expect("3"));
                if name == "nvl2" {
                    condition =
                        Expr::boolean(Node::IsNull { negated: true, value: Box::new(condition) }, false);
                }
                self.conditional(vec![(condition, yes)], Some(no), "if")?
            }
            "ifnull" | "nvl" | "coalesce" => {
                if args.is_empty() || (name != "coalesce" && args.len() != 2) {
                    return Err(wrong());
                }
                let parts = std::mem::take(args);
                let all: Vec<&Expr> = parts.iter().collect();
                let (mut ty, derivation) =
                    typing::aggregate(&all, self.cx.session.vars.connection_collation, name)?;
                // NULL has a sign here, unlike in CASE.
                let has_null = parts.iter().any(|part| part.class() == Class::Null);
                ty.unsigned &= !(has_null && ty.class() == Class::Decimal);
                let nullable = parts.iter().all(|p| p.nullable);
                Expr { node: Node::Coalesce(parts), ty, nullable, derivation }
            }
            "add_months" => {
                if args.len() != 2 {
                    return Err(wrong());
                }
                let mut args = take(args);
                let (date, months) = (args.next().expect("2"), args.next().expect("2"));
                self.date_arithmetic(date, months, IntervalUnit::Month, false)?
            }
            "nullif" => {
                if args.len() != 2 {
                    return Err(wrong());
                }
                let mut args = take(args);
                let (a, b) = (args.next().expect("2"), args.next().expect("2"));
                typing::check_fixed(&[&a, &b], "nullif")?;
                self.check_compared(&a, &b, "nullif")?;
                let (mut ty, derivation) = (typing::value_type(typing::operand_type(&a)), a.derivation);
                if ty.kind == TypeKind::Bit {
                    ty.format = Format::Digits;
                }
                let equal = self.compare(CompareOp::Eq, a.clone(), b)?;
                let node = Node::Case { whens: vec![(equal, Expr::null())], otherwise: Some(Box::new(a)) };
                Expr { node, ty, nullable: true, derivation }
            }
            "decode_oracle" => {
                if args.len() < 3 {
                    return Err(wrong());
                }
                let mut rest = take(args);
                let value = rest.next().expect("3");
                let mut whens = Vec::new();
                let mut otherwise = None;
                while let Some(sought) = rest.next() {
                    match rest.next() {
                        Some(result) => {
                            let test = self.compare(CompareOp::NullSafeEq, value.clone(), sought)?;
                            whens.push((test, result));
                        }
                        None => otherwise = Some(sought),
                    }
                }
                self.conditional(whens, otherwise, "decode_oracle")?
            }
            "isnull" => {
                if args.len() != 1 {
                    return Err(wrong());
                }
                let value = Box::new(take(args).next().expect("1"));
                Expr::boolean(Node::IsNull { negated: false, value }, false)
            }
            "mod" => {
                if args.len() != 2 {
                    return Err(wrong());
                }
                let mut args = take(args);
                let (a, b) = (args.next().expect("2"), args.next().expect("2"));
                self.arithmetic_of(keel_expr::ArithOp::Mod, a, b)
            }
            "adddate" | "date_add" | "subdate" | "date_sub" => {
                if args.len() != 2 {
                    return Err(wrong());
                }
                let mut args = take(args);
                let (date, days) = (args.next().expect("2"), args.next().expect("2"));
                self.date_arithmetic(date, days, IntervalUnit::Day, name.starts_with("sub"))?
            }
            "name_const" => {
                if args.len() != 2 {
                    return Err(wrong());
                }
                Expr { nullable: true, ..args.pop().expect("2") }
            }
            "last_value" => {
                let (Some(last), Some(function)) = (args.last(), func::lookup("last_value")) else {
                    return Err(wrong());
                };
                let (mut ty, nullable, derivation) = (last.ty.clone(), last.nullable, last.derivation);
                if ty.is_string() {
                    ty.decimals = STRING_DECIMALS;
                }
                Expr { node: Node::Call(function, take(args).collect()), ty, nullable, derivation }
            }
            "charset" | "collation" | "coercibility" => {
                if args.len() != 1 {
                    return Err(wrong());
                }
                self.about_collation(name, &args[0])
            }
            _ => return Ok(None),
        }))
    }

    /// CHARSET(), COLLATION() and COERCIBILITY() know their answer when bound.
    fn about_collation(&self, name: &str, arg: &Expr) -> Expr {
        let collation = if arg.ty.is_text() { arg.ty.collation } else { CollationId::BINARY };
        let text = match name {
            "charset" => collation.charset().name(),
            "collation" => collation.name(),
            _ => return Expr::constant(Value::Int(arg.derivation as i64), SqlType::int().with_length(10)),
        };
        let ty = SqlType::varchar(64, CollationId::UTF8MB3_GENERAL_CI).with_decimals(STRING_DECIMALS);
        Expr {
            nullable: true,
            derivation: Derivation::Coercible,
            ..Expr::constant(Value::bytes(text.as_bytes()), ty)
        }
    }

    /// `date +- INTERVAL amount unit`.
    pub(crate) fn date_arithmetic(
        &self,
        date: Expr,
        amount: Expr,
        unit: IntervalUnit,
        subtract: bool,
    ) -> SqlResult<Expr> {
        use IntervalUnit as U;
        typing::refuse_interval(&date)?;
        let days_only = matches!(unit, U::Day | U::Week | U::Month | U::Quarter | U::Year | U::YearMonth);
        let micros = matches!(
            unit,
            U::Microsecond
                | U::SecondMicrosecond
                | U::MinuteMicrosecond
                | U::HourMicrosecond
                | U::DayMicrosecond
        );
        let amount_digits = match (unit, amount.class()) {
            _ if micros => 6,
            (U::Second, Class::Decimal) => amount.ty.decimals.min(6),
            (U::Second, Class::Real) if amount.ty.decimals != 0 => 6,
            (U::Second, Class::String) => 6,
            _ => 0,
        };
        let digits = |own: u8| own.min(6).max(amount_digits);
        let ty = match date.class() {
            Class::Date if days_only => SqlType::new(TypeKind::Date),
            Class::Date => SqlType::temporal(TypeKind::DateTime, digits(0)),
            Class::DateTime => SqlType::temporal(TypeKind::DateTime, digits(date.ty.decimals)),
            // A time has no weeks and months.
            Class::Time if days_only && unit != U::Day => {
                SqlType::temporal(TypeKind::DateTime, digits(date.ty.decimals))
            }
            Class::Time => SqlType::temporal(TypeKind::Time, digits(date.ty.decimals)),
            _ => {
                let connection = self.cx.session.vars.connection_collation;
                let amount_digits = match date.class() {
                    Class::String => {
                        amount_digits.max(func::datetime::fraction_at_bind(self.cx.session, &date))
                    }
                    _ => amount_digits,
                };
                let fraction = if amount_digits > 0 { 1 + u32::from(amount_digits) } else { 0 };
                SqlType::char(19 + fraction, connection).with_decimals(amount_digits)
            }
        };
        let derivation = if ty.is_string() { Derivation::Coercible } else { Derivation::Numeric };
        let node = Node::DateArith { date: Box::new(date), amount: Box::new(amount), unit, subtract };
        Ok(Expr { node, ty, nullable: true, derivation })
    }

    pub(super) fn extract(&mut self, unit: IntervalUnit, tree: &ast::Expr) -> SqlResult<Expr> {
        let value = self.scalar(tree)?;
        self.named_call("extract", vec![func::datetime::unit_constant(unit), value])
    }

    pub(super) fn timestamp_diff(
        &mut self,
        unit: IntervalUnit,
        from: &ast::Expr,
        to: &ast::Expr,
    ) -> SqlResult<Expr> {
        let (from, to) = (self.scalar(from)?, self.scalar(to)?);
        self.named_call("timestampdiff", vec![func::datetime::unit_constant(unit), from, to])
    }

    pub(super) fn trim(
        &mut self,
        (side, oracle): (TrimSide, bool),
        what: Option<&ast::Expr>,
        tree: &ast::Expr,
    ) -> SqlResult<Expr> {
        let value = self.scalar(tree)?;
        let name = match (side, oracle) {
            (TrimSide::Both, false) => "trim",
            (TrimSide::Leading, false) => "ltrim",
            (TrimSide::Trailing, false) => "rtrim",
            (TrimSide::Both, true) => "trim_oracle",
            (TrimSide::Leading, true) => "ltrim_oracle",
            (TrimSide::Trailing, true) => "rtrim_oracle",
        };
        let mut args = vec![value];
        if let Some(what) = what {
            args.push(self.scalar(what)?);
        }
        self.named_call(name, args)
    }

    pub(super) fn char_function(&mut self, args: &[ast::Expr], charset: Option<&str>) -> SqlResult<Expr> {
        let args = args.iter().map(|a| self.scalar(a)).collect::<SqlResult<Vec<_>>>()?;
        let count = args.len() as u64;
        let mut call = self.named_call("char", args)?;
        if let Some(name) = charset {
            let charset = Charset::in_expressions(name).ok_or_else(|| errors::unknown_character_set(name))?;
            call.ty =
                typing::string_type(count * 4 / u64::from(charset.max_bytes()), charset.default_collation());
        }
        Ok(call)
    }
}

/// What is wrong with a call whose arguments have names: only loadable functions may have them.
#[cold]
fn named_arguments(call: &FunctionCall) -> SqlError {
    let written = &*call.written;
    let counts = match &*call.name {
        _ if call.spaced => None,
        "coalesce" => Some((1, usize::MAX)),
        "isnull" => Some((1, 1)),
        "ifnull" | "nvl" | "nullif" | "add_months" => Some((2, 2)),
        "nvl2" => Some((3, 3)),
        name => func::lookup(name).map(|function| (function.min, function.max)),
    };
    match counts {
        None => errors::wrong_parameters_to_stored_fct(written),
        Some((least, most)) if least == most && call.args.len() != least => {
            errors::wrong_paramcount_to_native_fct(written)
        }
        Some(_) => errors::wrong_parameters_to_native_fct(written),
    }
}
