//! What an inspection found: bounded, so that one lost page does not bury all else under thousands of lines.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// Findings of one kind in one file that are told one by one.
const TOLD_MAX: u64 = 20;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong with the data.
    Note,
    /// Data are lost or contradict each other.
    Damage,
}

/// One thing that was found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A word for it, the same for all of its kind.
    pub kind: &'static str,
    /// Name of the file within the data folder.
    pub file: String,
    /// Page within the file.
    pub page: Option<u32>,
    /// Table or index the file belongs to, once known.
    pub object: Option<String>,
    /// What was expected and what was found.
    pub text: String,
}

type Sink = Box<dyn Fn(&Finding) + Send + Sync>;

#[derive(Default)]
struct Inner {
    /// By kind and file: how many, and how bad.
    counts: BTreeMap<(&'static str, String), (u64, Severity)>,
    objects: HashMap<String, String>,
}

/// Takes findings and hands them on as they come.
pub struct Report {
    inner: Mutex<Inner>,
    sink: Sink,
}

impl Report {
    /// A report whose findings go to `sink`, of one kind and file at most twenty.
    pub fn new(sink: impl Fn(&Finding) + Send + Sync + 'static) -> Report {
        Report { inner: Mutex::default(), sink: Box::new(sink) }
    }

    /// Says what a file belongs to, for the findings to come.
    pub fn name(&self, file: &str, object: &str) {
        self.inner.lock().objects.insert(file.to_string(), object.to_string());
    }

    /// Takes a finding of damage.
    pub fn damage(&self, kind: &'static str, file: &str, page: Option<u32>, text: impl Into<String>) {
        self.add(Severity::Damage, kind, file, page, text.into());
    }

    /// Takes a note.
    pub fn note(&self, kind: &'static str, file: &str, page: Option<u32>, text: impl Into<String>) {
        self.add(Severity::Note, kind, file, page, text.into());
    }

    fn add(&self, severity: Severity, kind: &'static str, file: &str, page: Option<u32>, text: String) {
        let mut inner = self.inner.lock();
        let object = inner.objects.get(file).cloned();
        let count = inner.counts.entry((kind, file.to_string())).or_insert((0, severity));
        count.0 += 1;
        count.1 = count.1.max(severity);
        if count.0 <= TOLD_MAX {
            (self.sink)(&Finding { severity, kind, file: file.into(), page, object, text });
        }
    }

    /// Damage found so far.
    pub fn damage_count(&self) -> u64 {
        self.count(Severity::Damage)
    }

    /// Notes taken so far.
    pub fn note_count(&self) -> u64 {
        self.count(Severity::Note)
    }

    fn count(&self, severity: Severity) -> u64 {
        self.inner.lock().counts.values().filter(|c| c.1 == severity).map(|c| c.0).sum()
    }

    /// Whether damage of this file was found.
    pub fn is_damaged(&self, file: &str) -> bool {
        self.inner.lock().counts.iter().any(|((_, f), c)| f == file && c.1 == Severity::Damage)
    }

    /// Tells how many more there were of each kind and file than were told one by one.
    pub fn finish(&self) {
        let inner = self.inner.lock();
        for ((kind, file), (count, severity)) in inner.counts.iter().filter(|(_, c)| c.0 > TOLD_MAX) {
            let text = format!("{} more of this kind", count - TOLD_MAX);
            let object = inner.objects.get(file).cloned();
            (self.sink)(&Finding { severity: *severity, kind, file: file.clone(), page: None, object, text });
        }
    }
}
