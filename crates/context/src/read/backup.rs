//! The documents of `$backupCursor`, and the files that are kept while it is open.

use access::uuid::new_uuid;
use model::{Binary, DocBuf, DocWriter, MongoError, Result, Timestamp, Value, bail, code};
use query::exec::{BatchStream, DocBatch, ExecContext};
use state::backups::OpenBackup;
use state::service::Service;
use std::path::Path;
use std::sync::atomic::Ordering::Acquire;

/// The documents of the cursor. The files are kept until it is dropped.
struct BackupStream {
    docs: DocBatch,
    _files: OpenBackup,
}

impl BatchStream for BackupStream {
    fn next_batch(&mut self, _: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        std::mem::swap(out, &mut self.docs);
        self.docs.clear();
        Ok(false)
    }
}

/// Creates a checkpoint of the data and returns documents about its files.
///
/// # Errors
/// 50887 under `fsync` with `lock: true`, 50886 when another one is open, 115 CommandNotSupported
/// when the engine has no files; engine failures.
pub(super) fn open(service: &Service) -> Result<Box<dyn BatchStream>> {
    if service.state.fsync_locks.load(Acquire) > 0 {
        bail!(
            50887,
            "writes are locked by fsync; unlock them before a backup cursor is opened"
        );
    }
    // The files contain every change up to this time, and may contain later ones.
    let log = service.store.log();
    let times = log.map(|log| (log.oldest(), log.visible()));
    let id = new_uuid();
    let name: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let files = service.state.backups.open(&service.store, &name)?;
    // All changes in the files have a time up to this one.
    let complete = log.map(|log| log.run_between_commits(|at| at));
    let mut docs = DocBatch::new();
    docs.push(metadata(id, text(files.directory())?, times.zip(complete)).doc());
    for (path, bytes) in files.files()? {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let name = text(&path)?;
        docs.push(model::doc! { "filename": name, "fileSize": bytes }.doc());
    }
    Ok(Box::new(BackupStream {
        docs,
        _files: files,
    }))
}

/// The first and the last time of the log before the checkpoint, and the last time after it.
type Times = ((Timestamp, Timestamp), Timestamp);

fn metadata(id: [u8; 16], directory: &str, times: Option<Times>) -> DocBuf {
    let optime = |w: &mut DocWriter<'_>, name: &str, at: Timestamp| {
        w.doc(name).put("ts", at).put("t", 1i64);
    };
    DocBuf::build(|w| {
        let mut w = w.doc("metadata");
        let id = Binary {
            subtype: 4,
            bytes: &id,
        };
        w.put("backupId", Value::Binary(id));
        w.put("dbpath", directory);
        if let Some(((first, last), complete)) = times {
            optime(&mut w, "oplogStart", first);
            optime(&mut w, "oplogEnd", last);
            w.put("checkpointTimestamp", last);
            // Not a field of MongoDB: the files contain no later change.
            w.put("lastTimestamp", complete);
        }
    })
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let line = format!("{} is not UTF-8, as a name in BSON must be", path.display());
        MongoError::new(code::BAD_VALUE, line)
    })
}
