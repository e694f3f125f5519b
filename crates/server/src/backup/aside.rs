//! The folder into which `quarry repair` sets damaged data apart. It lies beside the data
//! directory, is laid out as mongodump lays out its own, and has a report. Promises: no folder is
//! made as long as there is nothing to keep; what is set apart is on the device before the repair
//! removes it from the data. Must not know: why something is set apart.

use crate::failure::Failure;
use model::{Binary, Doc, DocBuf, Namespace, Result, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use store::{DamagedRow, SalvageSink};

/// In the folder: the report of what was found and done.
pub(super) const REPORT: &str = "report.txt";
/// Most files kept open; when one more is needed, all are synced and closed.
const FILES_MAX: usize = 64;

/// The folder; it is made when the first thing is put into it.
pub(super) struct SalvageFolder<'t> {
    folder: PathBuf,
    is_made: bool,
    /// Open files by their path.
    files: BTreeMap<PathBuf, File>,
    /// Number of the next damaged row.
    next: i64,
    report: Vec<String>,
    print_message: &'t mut dyn FnMut(&str),
}

impl<'t> SalvageFolder<'t> {
    /// `folder` must not exist or must be empty.
    ///
    /// # Errors
    /// The folder holds something.
    pub(super) fn new(
        folder: PathBuf,
        head: String,
        print_message: &'t mut dyn FnMut(&str),
    ) -> std::result::Result<SalvageFolder<'t>, Failure> {
        let shown = folder.display();
        let held = match fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            Err(e) => return Err(Failure::of_data(format!("cannot read {shown}: {e}"))),
            Ok(entries) => entries.count(),
        };
        if held > 0 {
            return Err(Failure::of_options(format!(
                "{shown} is not empty; name an empty folder for --setAside"
            )));
        }
        Ok(SalvageFolder {
            folder,
            is_made: false,
            files: BTreeMap::new(),
            next: 1,
            report: vec![head],
            print_message,
        })
    }

    /// The path of the folder, if something was put into it.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.is_made.then_some(&self.folder)
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn make(&mut self) -> std::io::Result<&Path> {
        if !self.is_made {
            fs::create_dir_all(&self.folder)?;
            if let Some(parent) = self.folder.parent() {
                File::open(parent)?.sync_all()?;
            }
            self.is_made = true;
        }
        Ok(&self.folder)
    }

    /// Adds a line to the report and shows it to the user.
    pub(super) fn report(&mut self, line: &str) {
        (self.print_message)(line);
        self.report.push(line.to_owned());
    }

    /// Writes the report, if there is a folder.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn end(mut self) -> std::result::Result<(), Failure> {
        if !self.is_made {
            return Ok(());
        }
        let shown = self.folder.display().to_string();
        self.write_all()
            .map_err(|e| Failure::of_data(format!("cannot write into {shown}: {e}")))
    }

    fn append(&mut self, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let path = self.make()?.join(file);
        if self.files.len() >= FILES_MAX && !self.files.contains_key(file) {
            self.sync()?;
            self.files.clear();
        }
        if let Some(open) = self.files.get_mut(file) {
            return open.write_all(bytes);
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut open = File::options().create(true).append(true).open(&path)?;
        open.write_all(bytes)?;
        self.files.insert(file.to_owned(), open);
        Ok(())
    }

    /// Writes the report and makes everything written so far durable.
    fn write_all(&mut self) -> std::io::Result<()> {
        let lines = std::mem::take(&mut self.report);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.append(Path::new(REPORT), text.as_bytes())?;
        self.sync()
    }

    fn sync(&self) -> std::io::Result<()> {
        for (path, file) in &self.files {
            file.sync_all()?;
            if let Some(parent) = path.parent() {
                File::open(self.folder.join(parent))?.sync_all()?;
            }
        }
        File::open(&self.folder)?.sync_all()
    }

    fn write_error(&self, e: &std::io::Error) -> model::MongoError {
        let shown = self.folder.display();
        model::MongoError::internal(format!("cannot write into {shown}: {e}"))
    }
}

impl SalvageSink for SalvageFolder<'_> {
    fn document(&mut self, ns: &Namespace, doc: Doc<'_>, _: &str) -> Result<()> {
        let file = file_of(ns, "");
        let written = self.append(&file, doc.as_bytes());
        written.map_err(|e| self.write_error(&e))
    }

    fn row(&mut self, row: &DamagedRow<'_>) -> Result<()> {
        let bytes = |bytes| Value::Binary(Binary { subtype: 0, bytes });
        let doc = DocBuf::build(|w| {
            w.put("_id", self.next)
                .put("why", row.why)
                .put("table", row.table.name())
                .put("key", bytes(row.key))
                .put("value", bytes(row.value))
                .put("readable", row.readable);
        });
        self.next += 1;
        let file = match row.ns {
            Some(ns) => file_of(ns, ".damaged"),
            None => PathBuf::from("quarry").join("rows.damaged.bson"),
        };
        let written = self.append(&file, doc.as_bytes());
        written.map_err(|e| self.write_error(&e))
    }

    fn keep(&mut self) -> Result<()> {
        let written = self.write_all();
        written.map_err(|e| self.write_error(&e))
    }

    fn report_defect(&mut self, line: &str) {
        self.report(line);
    }

    fn new_uuid(&mut self) -> [u8; 16] {
        let mut uuid = [0; 16];
        // Without random numbers the machine cannot serve clients either.
        let random = ring::rand::SystemRandom::new();
        let _ = ring::rand::SecureRandom::fill(&random, &mut uuid);
        uuid[6] = uuid[6] & 0x0F | 0x40;
        uuid[8] = uuid[8] & 0x3F | 0x80;
        uuid
    }
}

/// The file name that mongodump gives a collection.
fn file_of(ns: &Namespace, kind: &str) -> PathBuf {
    let mut name = String::new();
    for byte in ns.coll().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                name.push(char::from(byte));
            }
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    PathBuf::from(ns.db()).join(format!("{name}{kind}.bson"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_for_nothing_and_names_are_those_of_mongodump() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("apart");
        let mut told = Vec::new();
        let print_message = &mut |line: &str| told.push(line.to_owned());
        let mut apart =
            SalvageFolder::new(folder.clone(), "head".to_owned(), print_message).unwrap();
        apart.report_defect("a counter was wrong");
        assert_eq!(apart.folder(), None);
        apart.end().unwrap();
        assert!(!folder.exists());
        let print_message = &mut |_: &str| {};
        let mut apart =
            SalvageFolder::new(folder.clone(), "head".to_owned(), print_message).unwrap();
        let ns = Namespace::new("shop", "a/b c").unwrap();
        apart.document(&ns, Doc::EMPTY, "why").unwrap();
        apart.report_defect("told");
        apart.keep().unwrap();
        apart.end().unwrap();
        let written = fs::read(folder.join("shop/a%2Fb%20c.bson")).unwrap();
        assert_eq!(written, Doc::EMPTY.as_bytes());
        let report = fs::read_to_string(folder.join(REPORT)).unwrap();
        assert_eq!(report, "head\ntold\n");
        let taken = SalvageFolder::new(folder, String::new(), &mut |_: &str| {}).err();
        assert!(taken.unwrap().message.contains("is not empty"));
    }
}
