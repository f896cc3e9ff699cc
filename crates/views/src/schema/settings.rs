//! `information_schema.KEEL_SETTINGS`: every variable and every name of the past, with its effect and who gave it a value.

use keel_settings::options::lines::{SettingState, What, verdict};
use keel_settings::options::past::{self, Was};
use keel_settings::variables::table;

use super::{RowMaker, View, maybe, text};

/// The rows of `information_schema.KEEL_SETTINGS`.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let given = view.served.given();
    for (id, variable) in table().iter() {
        let sets = |what: What| match what {
            What::Variable(set) | What::Meant(set, _) => set == id,
            _ => false,
        };
        let given = given.iter().rev().find(|given| sets(given.what));
        let (state, why) = verdict(variable.effect, view.served.globals.is_chosen(id));
        let value = (state == SettingState::Acts).then(|| view.served.globals.get(id).show());
        rows.row([
            ("NAME", text(variable.name)),
            ("STATE", text(state.name())),
            ("VALUE", maybe(value)),
            ("GIVEN", maybe(given.map(|given| given.value.as_deref().unwrap_or("")))),
            ("GIVEN_IN", maybe(given.map(|given| &given.place))),
            ("WHY", text(why)),
        ]);
    }
    for past in past::iter() {
        let is_it = |what: What| matches!(what, What::Past(other) if other.name == past.name);
        let given = given.iter().rev().find(|given| is_it(given.what));
        let (state, why) = match past.was {
            Was::Obsolete(version) => (SettingState::Obsolete, format!("since {version}: {}", past.why)),
            Was::Foreign(version) => (SettingState::NoEffect, format!("{} (a name of {version})", past.why)),
            Was::Idle | Was::Refused(_) => (SettingState::NoEffect, past.why.into()),
            Was::Renamed(_) | Was::Misspelt => continue,
        };
        rows.row([
            ("NAME", text(past.name)),
            ("STATE", text(state.name())),
            ("GIVEN", maybe(given.map(|given| given.value.as_deref().unwrap_or("")))),
            ("GIVEN_IN", maybe(given.map(|given| &given.place))),
            ("WHY", text(why)),
        ]);
    }
}
