//! Whether a way of doing things gives more than the other, found by trying both.
//!
//! Time is cut into windows. The way that gives more is in use; now and then one window tries the other way, and what it gave is
//! compared with the windows before and after it, so that what changes slowly does not count. The logarithms of these ratios are
//! smoothed. Probes are frequent at first and whenever one contradicts what was believed, and rare while all agree.

/// What one probe adds to the smoothed logarithm.
const WEIGHT: f64 = 1.0 / 8.0;
/// One probe is not believed more than this: a window in which the machine was busy with something else.
const LOG_MAX: f64 = 0.5;
/// The new way must give so much more, as a logarithm, before it is used, and is used until it gives less than that.
const LOG_TO_USE: f64 = 0.06;
const LOG_TO_END: f64 = 0.02;
/// A probe in which the other way gave so much more than was believed is a reason for doubt.
const LOG_TO_DOUBT: f64 = 0.2;
/// With each so many probes that agree, the time between them doubles, so often at most.
const PROBES_TO_SETTLE: u32 = 8;
const DOUBLINGS_MAX: u32 = 7;

/// A comparison that goes on for ever: is the new way better than the old?
#[derive(Default)]
pub(crate) struct Trial {
    uses_new: bool,
    step: Step,
    /// Smoothed logarithm of what the new way gives of what the old one gives.
    log: f64,
    /// Probes without doubt.
    settled: u32,
    /// What the last window gave in which the way in use was used.
    before: Option<f64>,
}

/// What the window that runs is for.
#[derive(Clone, Copy)]
enum Step {
    /// The way in use, for so many windows after this one.
    Use(u32),
    /// The other way.
    Probe,
    /// The way in use, after a probe that gave this.
    After(Option<f64>),
}

impl Default for Step {
    fn default() -> Step {
        Step::Use(0)
    }
}

impl Trial {
    /// Is the new way the one for the window that runs?
    pub fn is_new(&self) -> bool {
        self.uses_new != matches!(self.step, Step::Probe)
    }
    /// Has the new way turned out better?
    #[cfg(test)]
    pub fn uses_new(&self) -> bool {
        self.uses_new
    }
    /// A window has ended, and has given this much for its time; none if it says nothing.
    pub fn note_window(&mut self, rate: Option<f64>) {
        self.step = match self.step {
            Step::Use(0) => Step::Probe,
            Step::Use(more) => Step::Use(more - 1),
            Step::Probe => Step::After(rate),
            Step::After(probe) => {
                let has_changed = match (self.before, probe, rate) {
                    (Some(before), Some(probe), Some(after)) => {
                        self.note_probe(2.0 * probe / (before + after))
                    }
                    _ => false,
                };
                match self.between() {
                    // This window is the one before the next probe too.
                    1 if !has_changed => Step::Probe,
                    windows => Step::Use(windows.saturating_sub(2)),
                }
            }
        };
        if !matches!(self.step, Step::After(_)) {
            self.before = rate;
        }
    }
    /// What the other way has given, of what the one in use gives. Is it used from now on?
    fn note_probe(&mut self, ratio: f64) -> bool {
        let for_other = ratio.ln().clamp(-LOG_MAX, LOG_MAX);
        let sign = if self.uses_new { -1.0 } else { 1.0 };
        let is_doubtful = for_other - sign * self.log > LOG_TO_DOUBT;
        self.settled = if is_doubtful { 0 } else { self.settled.saturating_add(1) };
        self.log += (sign * for_other - self.log) * WEIGHT;
        let limit = if self.uses_new { LOG_TO_END } else { LOG_TO_USE };
        let changes = (self.log > limit) != self.uses_new;
        if changes {
            self.uses_new = !self.uses_new;
            self.settled = 0;
        }
        changes
    }
    /// Windows of the way in use between two probes.
    fn between(&self) -> u32 {
        1 << (self.settled / PROBES_TO_SETTLE).min(DOUBLINGS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Rng;

    /// Windows of which the new way gives `of_old` times as much as the old, give or take `noise`; the share of the new way in
    /// the last half of them.
    fn share_of_new(trial: &mut Trial, windows: u32, of_old: f64, noise: f64) -> f64 {
        let seed = crate::rand::u64();
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut new = 0;
        for window in 0..windows {
            let off = rng.below(2001) as f64 / 1000.0 - 1.0;
            new += u32::from(trial.is_new() && window >= windows / 2);
            let rate = if trial.is_new() { of_old } else { 1.0 };
            trial.note_window(Some(40_000.0 * rate * (1.0 + off * noise)));
        }
        f64::from(new) / f64::from(windows - windows / 2)
    }

    #[test]
    fn the_better_way_is_used() {
        for (of_old, low, high) in [(1.2, 0.9, 1.0), (0.9, 0.0, 0.15), (0.5, 0.0, 0.03)] {
            let share = share_of_new(&mut Trial::default(), 2000, of_old, 0.05);
            assert!((low..=high).contains(&share), "{of_old}: {share}");
        }
    }

    #[test]
    fn it_follows_a_change() {
        let trial = &mut Trial::default();
        assert!(share_of_new(trial, 2000, 1.2, 0.05) > 0.9);
        assert!(share_of_new(trial, 1000, 0.9, 0.05) < 0.2);
        assert!(share_of_new(trial, 1000, 1.2, 0.05) > 0.8);
    }

    #[test]
    fn no_difference_keeps_the_old_way() {
        assert!(share_of_new(&mut Trial::default(), 2000, 1.0, 0.0) < 0.03);
    }

    #[test]
    fn windows_that_say_nothing_are_no_evidence() {
        let mut trial = Trial::default();
        for window in 0..1000 {
            let rate = if trial.is_new() { 2.0 } else { 1.0 };
            trial.note_window((window % 2 == 0).then_some(rate));
        }
        assert!(!trial.uses_new && trial.log == 0.0);
    }

    #[test]
    fn what_changes_slowly_is_no_evidence() {
        let mut trial = Trial::default();
        for window in 0..1000 {
            trial.note_window(Some(1.0 + 0.2 * (f64::from(window) / 20.0).sin()));
        }
        assert!(!trial.uses_new, "{}", trial.log);
    }
}
