//! One line for each given setting: whether it acts, and if not, the reason. The server writes the lines to the error log
//! when it starts; `information_schema.KEEL_SETTINGS` shows the same for every variable.

use std::fmt;

use super::past::{Past, Was};
use crate::variables::{Effect, Globals, Setting, VarId, Variable, table};

/// A setting as it was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// The name as it was written, with underscores.
    pub name: String,
    /// The value as it was written.
    pub value: Option<String>,
    /// `command line`, or the file and line.
    pub place: String,
    /// What it sets.
    pub what: What,
}

/// What a name sets.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// A variable.
    Variable(VarId),
    /// A variable by a name that is not MariaDB's.
    Meant(VarId, &'static Past),
    /// Nothing: why.
    Nothing(&'static str),
    /// Nothing.
    Past(&'static Past),
    /// An option of Keel's own, or TLS on and off.
    Option,
    /// How the accounts of a new data folder authenticate.
    Initial,
    /// As [`What::Initial`], but the data folder has accounts already.
    TooLate,
    /// Nothing that is known; `loose_` says that this is no error.
    Unknown,
}

/// Marks options that choose the first accounts: the data folder has accounts.
pub fn accounts_exist(given: &mut [Given]) {
    let initial = |given: &&mut Given| matches!(given.what, What::Initial);
    given.iter_mut().filter(initial).for_each(|given| given.what = What::TooLate);
}

/// Whether a setting does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingState {
    /// It does what its value says.
    Acts,
    /// The server chooses the value; a given one is shown, and not used.
    Automatic,
    /// A version of MariaDB or MySQL has removed it.
    Obsolete,
    /// It does nothing here.
    NoEffect,
}

impl SettingState {
    /// As KEEL_SETTINGS shows it.
    pub fn name(self) -> &'static str {
        match self {
            SettingState::Acts => "acts",
            SettingState::Automatic => "automatic",
            SettingState::Obsolete => "obsolete",
            SettingState::NoEffect => "no effect",
        }
    }
}

/// The state of a variable and the reason for it; `chosen` says that a value was given.
pub fn verdict(effect: Effect, chosen: bool) -> (SettingState, &'static str) {
    match effect {
        Effect::Acts => (SettingState::Acts, ""),
        Effect::Chosen(_) if chosen => (SettingState::Acts, ""),
        Effect::Chosen(how) | Effect::Automatic(how) => (SettingState::Automatic, how),
        Effect::Fixed(why) | Effect::None(why) | Effect::Refused(why) => (SettingState::NoEffect, why),
    }
}

/// The line of a setting; `globals` has the values in force.
struct Line<'a> {
    given: &'a Given,
    globals: &'a Globals,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given.name)?;
        if let Some(value) = &self.given.value {
            write!(f, "={}", shortened(value))?;
        }
        f.write_str(": ")?;
        match self.given.what {
            What::Variable(id) => self.variable(f, id),
            What::Meant(id, past) => {
                let right = table().get(id).name;
                match past.was {
                    Was::Misspelt => write!(f, "misspelt, taken as {right}: ")?,
                    Was::Renamed(version) if !version.is_empty() => {
                        write!(f, "the name in {version} of {right}: ")?;
                    }
                    _ => write!(f, "sets {right}: ")?,
                }
                self.variable(f, id)
            }
            What::Past(past) => match past.was {
                Was::Obsolete(version) => write!(f, "obsolete since {version}: {}", past.why),
                Was::Foreign(version) => {
                    write!(f, "no effect because {} (a name of {version})", past.why)
                }
                _ => write!(f, "no effect because {}", past.why),
            },
            What::Nothing(why) => write!(f, "no effect because {why}"),
            What::Option | What::Initial => f.write_str("acts"),
            What::TooLate => f.write_str("no effect because the data folder has its accounts already"),
            What::Unknown => f.write_str("no effect because the name is unknown, which loose_ allows"),
        }
    }
}

impl Line<'_> {
    fn variable(&self, f: &mut fmt::Formatter<'_>, id: VarId) -> fmt::Result {
        let variable = table().get(id);
        match verdict(variable.effect, true) {
            (SettingState::Acts, _) => write!(f, "acts, {}", in_force(variable, &self.globals.get(id))),
            (SettingState::Automatic, how) => write!(f, "automatic, the given value is not used: {how}"),
            (_, why) => write!(f, "no effect because {why}"),
        }
    }
}

/// The longest value that a line shows.
const VALUE_CHARS: usize = 200;

fn shortened(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { ' ' } else { c }).take(VALUE_CHARS).collect()
}

fn in_force(variable: &Variable, setting: &Setting) -> String {
    match setting.show() {
        empty if empty.is_empty() => format!("{} is empty", variable.name),
        shown => shortened(&shown),
    }
}

/// A line for each setting, the last word of each name counting, in the order in which they were given.
pub fn of(given: &[Given], globals: &Globals) -> Vec<String> {
    let is_last = |at: usize| given[at + 1..].iter().all(|later| later.name != given[at].name);
    let last = given.iter().enumerate().filter(|(at, _)| is_last(*at));
    last.map(|(_, given)| Line { given, globals }.to_string()).collect()
}
