//! Names of the branches of distributed transactions (XA).

use keel_sql::ast;

/// Bytes of the format number before a name.
const FORMAT_BYTES: usize = 4;

/// The name of a branch of a distributed transaction.
#[derive(Debug, Clone)]
pub struct Xid {
    /// The format's number.
    pub format: u32,
    /// Length of the first part, length of the second, both parts.
    pub name: Box<[u8]>,
}

impl Xid {
    /// The name that a statement gives.
    pub fn new(xid: &ast::Xid) -> Xid {
        let lengths = [xid.gtrid.len() as u8, xid.bqual.len() as u8];
        let name = [&lengths, &xid.gtrid[..], &xid.bqual[..]].concat();
        Xid { format: xid.format as u32, name: name.into() }
    }

    /// Whether a statement names the same branch: the format does not count.
    pub fn is(&self, xid: &ast::Xid) -> bool {
        self.name == Xid::new(xid).name
    }

    /// The bytes that the engine keeps.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.format.to_le_bytes()[..], &self.name].concat()
    }

    /// The name that the engine kept as `bytes`; none if they are not such a name.
    pub fn from_bytes(bytes: &[u8]) -> Option<Xid> {
        let (format, name) = bytes.split_first_chunk::<FORMAT_BYTES>()?;
        let whole = matches!(name, [a, b, rest @ ..] if usize::from(*a) + usize::from(*b) == rest.len());
        whole.then(|| Xid { format: u32::from_le_bytes(*format), name: name.into() })
    }

    /// The name as XA statements write it.
    pub fn shown(&self) -> String {
        let (gtrid, bqual) = self.name[2..].split_at(usize::from(self.name[0]));
        format!("'{}','{}',{}", gtrid.escape_ascii(), bqual.escape_ascii(), self.format)
    }
}
