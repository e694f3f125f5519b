//! A MySQL server as a target: connecting, preparing tables, counting, sizes, statistics.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::result::{Sizes, TargetFacts};
use lab_kit::row::DocumentKind;
use lab_kit::target::{EXTRA_TABLE, SettleResult, Table, Target, TargetError, TargetInfo};
use lab_kit::workload::{Capability, Index};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

use crate::connection::{Interface, one_line};
use crate::session::SqlSession;
use crate::statements;

/// How a target is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE?engine=innodb&interface=select`.
    pub address: String,
    /// The address for people, without the password.
    pub shown: String,
    /// The database, if the address names none.
    pub database: String,
    /// Whether tables with rows may be dropped.
    pub may_drop: bool,
    /// Data directory, if the user gave one.
    pub data_dir: Option<PathBuf>,
}

/// A server, connected.
pub struct SqlTarget {
    options: Options,
    opts: Opts,
    engine: Option<String>,
    interface: Interface,
    tables: Arc<Vec<Table>>,
    indexes: Mutex<Vec<Index>>,
    /// The connection for everything except measured calls.
    conn: Mutex<Conn>,
    is_sync: bool,
}

impl SqlTarget {
    /// Connects, and makes the database if it does not exist.
    ///
    /// # Errors
    /// The address is not valid, no server answers, or the server refuses.
    pub fn open(options: Options, tables: Vec<Table>) -> Result<Self, TargetError> {
        let wrong = |reason: String| TargetError::Address {
            given: options.shown.clone(),
            reason,
        };
        let (address, engine, interface) = parse_address(&options.address).map_err(wrong)?;
        let opts = Opts::from_url(&address).map_err(|error| wrong(error.to_string()))?;
        let database = match opts.get_db_name() {
            None | Some("") => options.database.clone(),
            Some(name) => name.to_owned(),
        };
        if !database
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            return Err(wrong(format!(
                "the database name must consist of letters, digits and _, given '{database}'"
            )));
        }
        let builder = OptsBuilder::from_opts(opts)
            .db_name(None::<String>)
            .prefer_socket(false)
            .tcp_connect_timeout(Some(Duration::from_secs(5)))
            .additional_capabilities(mysql::consts::CapabilityFlags::CLIENT_FOUND_ROWS);
        let reach = |error: mysql::Error| TargetError::Unreachable {
            address: options.shown.clone(),
            reason: one_line(&error),
        };
        let mut conn = Conn::new(builder.clone()).map_err(reach)?;
        let refused = |error: mysql::Error| TargetError::Refused {
            what: format!("the database {database}"),
            reason: one_line(&error),
        };
        conn.query_drop(format!("CREATE DATABASE IF NOT EXISTS `{database}`"))
            .map_err(refused)?;
        conn.query_drop(format!("USE `{database}`"))
            .map_err(refused)?;
        let opts = Opts::from(builder.db_name(Some(database)));
        let is_rocks = engine
            .as_deref()
            .is_some_and(|engine| engine.eq_ignore_ascii_case("rocksdb"));
        let variable = if is_rocks {
            "rocksdb_flush_log_at_trx_commit"
        } else {
            "innodb_flush_log_at_trx_commit"
        };
        // If this value cannot be read, the target is refused, because the result would otherwise
        // report no durability.
        let flushed: Option<i64> =
            conn.query_first(format!("SELECT @@{variable}"))
                .map_err(|error| TargetError::Refused {
                    what: format!("the variable {variable}"),
                    reason: one_line(&error),
                })?;
        Ok(Self {
            options,
            opts,
            engine,
            interface,
            tables: Arc::new(tables),
            indexes: Mutex::default(),
            conn: Mutex::new(conn),
            is_sync: flushed == Some(1),
        })
    }

    fn conn(&self) -> MutexGuard<'_, Conn> {
        self.conn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_indexes(&self) -> Vec<Index> {
        self.indexes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn ask<N: mysql::prelude::FromRow>(&self, question: &str) -> Option<N> {
        self.conn().query_first(question).ok().flatten()
    }

    fn refusal_error(what: String) -> impl Fn(mysql::Error) -> TargetError {
        move |error| TargetError::Refused {
            what: what.clone(),
            reason: one_line(&error),
        }
    }

    /// The sum of a query over all tables; `{}` is replaced by the table.
    fn sum_over(&self, question: impl Fn(&str) -> String) -> Result<i64, String> {
        let mut total = 0;
        for table in self.tables.iter() {
            let found: Option<Option<i64>> = self
                .conn()
                .query_first(question(&table.name))
                .map_err(|error| one_line(&error))?;
            total += found.flatten().unwrap_or(0);
        }
        Ok(total)
    }

    fn process(&self) -> Result<u32, String> {
        let port = self.opts.get_tcp_port();
        let host = self.opts.get_ip_or_hostname();
        if !matches!(host.as_ref(), "127.0.0.1" | "localhost" | "::1" | "[::1]") {
            return Err("not local".to_owned());
        }
        metrics::listening_process(port)
            .ok_or_else(|| format!("no visible process listens on port {port}"))
    }
}

impl Target for SqlTarget {
    type Session = SqlSession;

    async fn inspect(&self) -> TargetInfo {
        let found = self.process();
        let data = self
            .options
            .data_dir
            .clone()
            .or_else(|| self.ask::<String>("SELECT @@datadir").map(PathBuf::from));
        let data = data
            .filter(|_| found.is_ok())
            .and_then(|path| path.canonicalize().ok());
        let version: String = self.ask("SELECT VERSION()").unwrap_or_default();
        let product = if version.contains("MariaDB") {
            "MariaDB"
        } else {
            "MySQL"
        };
        let engine = self
            .engine
            .clone()
            .or_else(|| self.ask("SELECT @@default_storage_engine"));
        TargetInfo {
            pid: found.as_ref().ok().copied(),
            facts: TargetFacts {
                uri: self.options.shown.clone(),
                product: product.to_owned(),
                version,
                storage_engine: engine
                    .map(|engine| format!("{engine}, {:?}", self.interface).to_lowercase()),
                pid: found.as_ref().ok().copied(),
                not_watched_because: found.err(),
                watched: None,
                data_directory: data.as_ref().map(|path| path.display().to_string()),
                device: None,
                write_concern: if self.is_sync {
                    "each commit flushed"
                } else {
                    "commits flushed later"
                }
                .to_owned(),
                is_flushed: Some(self.is_sync),
                build: None,
                options: std::collections::BTreeMap::new(),
                build_info: serde_json::Value::Null,
            },
            data,
        }
    }

    fn unsupported(&self) -> &'static [Capability] {
        if self.is_sync {
            &[Capability::Merge, Capability::Capped]
        } else {
            &[Capability::Merge, Capability::Capped, Capability::Sync]
        }
    }

    fn takes_programs(&self) -> bool {
        true
    }

    fn can_restart(&self) -> bool {
        true
    }

    async fn answers(&self) -> bool {
        Conn::new(self.opts.clone()).is_ok()
    }

    async fn reconnect(&self) -> Result<(), TargetError> {
        let reach = |error: mysql::Error| TargetError::Unreachable {
            address: self.options.shown.clone(),
            reason: one_line(&error),
        };
        let conn = Conn::new(self.opts.clone()).map_err(reach)?;
        *self.conn() = conn;
        Ok(())
    }

    fn attach(&self, indexes: &[Index]) {
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = indexes.to_vec();
    }

    async fn prepare(&self) -> Result<(), TargetError> {
        let question = "SELECT table_name FROM information_schema.tables WHERE table_schema = \
            DATABASE() AND LEFT(table_name, ?) = ?";
        let left: Vec<String> = self
            .conn()
            .exec(question, (EXTRA_TABLE.len(), EXTRA_TABLE))
            .unwrap_or_default();
        for name in left {
            let dropped = self
                .conn()
                .query_drop(format!("DROP TABLE IF EXISTS `{name}`"));
            dropped.map_err(Self::refusal_error(format!("to drop {name}")))?;
        }
        for table in self.tables.iter() {
            let name = &table.name;
            let rows: Option<i64> = self.ask(&format!(
                "SELECT COUNT(*) FROM (SELECT 1 FROM `{name}` LIMIT 1) AS found"
            ));
            if rows.unwrap_or(0) > 0 && !self.options.may_drop {
                return Err(TargetError::InTheWay {
                    what: format!("table {name}"),
                    documents: rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0),
                    instead: "another database".to_owned(),
                });
            }
            let mut conn = self.conn();
            conn.query_drop(format!("DROP TABLE IF EXISTS `{name}`"))
                .map_err(Self::refusal_error(format!("to drop {name}")))?;
            let create = match table.kind {
                DocumentKind::Records(records) => {
                    statements::create_records(records, self.engine.as_deref())
                }
                _ => statements::create_table(table, self.engine.as_deref()),
            };
            conn.query_drop(create)
                .map_err(Self::refusal_error(format!("to create {name}")))?;
        }
        self.attach(&[]);
        Ok(())
    }

    async fn create_indexes(&self, indexes: &[Index]) -> Result<(), TargetError> {
        for table in self.tables.iter() {
            for index in indexes {
                let statement = statements::create_index(&table.name, index);
                self.conn()
                    .query_drop(statement)
                    .map_err(Self::refusal_error(format!("index {}", index.name)))?;
            }
        }
        self.attach(indexes);
        Ok(())
    }

    async fn create_extra_table(&self, number: u32) -> Result<(), TargetError> {
        let name = format!("{EXTRA_TABLE}{number}");
        let engine = self
            .engine
            .as_ref()
            .map_or_else(String::new, |engine| format!(" ENGINE={engine}"));
        let mut conn = self.conn();
        for statement in [
            format!("DROP TABLE IF EXISTS `{name}`"),
            format!(
                "CREATE TABLE `{name}` (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL, KEY n \
                    (n)){engine}"
            ),
            format!("INSERT INTO `{name}` VALUES (1, 1)"),
        ] {
            conn.query_drop(statement)
                .map_err(Self::refusal_error(format!("table {name}")))?;
        }
        Ok(())
    }

    async fn session(&self, _: bool) -> Result<SqlSession, TargetError> {
        let reach = |error: mysql::Error| TargetError::Unreachable {
            address: self.options.shown.clone(),
            reason: one_line(&error),
        };
        let conn = Conn::new(self.opts.clone()).map_err(reach)?;
        SqlSession::new(
            conn,
            self.tables.clone(),
            self.known_indexes(),
            self.interface,
        )
        .map_err(reach)
    }

    async fn count(&self) -> Result<u64, String> {
        let total = self.sum_over(|table| format!("SELECT COUNT(*) FROM `{table}`"))?;
        Ok(u64::try_from(total).unwrap_or(0))
    }

    async fn sum_of_k(&self) -> Result<i64, String> {
        self.sum_over(|table| format!("SELECT CAST(SUM(k) AS SIGNED) FROM `{table}`"))
    }

    async fn delete_above(&self, table: usize, number: i64) -> Result<(), TargetError> {
        let Some(table) = self.tables.get(table) else {
            return Ok(());
        };
        let done = self.conn().exec_drop(
            format!("DELETE FROM `{}` WHERE id > ?", table.name),
            (number,),
        );
        done.map_err(Self::refusal_error(format!(
            "to delete from {}",
            table.name
        )))
    }

    async fn sizes(&self) -> Sizes {
        let mut out = Sizes::default();
        for table in self.tables.iter() {
            let mut conn = self.conn();
            // Without this the table's statistics are those of its last analysis.
            let _ = conn.query_drop(format!("ANALYZE TABLE `{}`", table.name));
            let question = "SELECT data_length, index_length, table_rows FROM \
                information_schema.tables \
                            WHERE table_schema = DATABASE() AND table_name = ?";
            let found: Option<(Option<u64>, Option<u64>, Option<u64>)> =
                conn.exec_first(question, (&table.name,)).ok().flatten();
            if let Some((data, index, rows)) = found {
                *out.storage_bytes.get_or_insert(0) += data.unwrap_or(0);
                *out.index_bytes.get_or_insert(0) += index.unwrap_or(0);
                // An estimate in InnoDB.
                *out.documents.get_or_insert(0) += rows.unwrap_or(0);
            }
        }
        if let (Some(storage), Some(rows @ 1..)) = (out.storage_bytes, out.documents) {
            out.bytes_per_document =
                Some((storage + out.index_bytes.unwrap_or(0)) as f64 / rows as f64);
        }
        out
    }

    async fn settle(&self, timeout: Duration) -> SettleResult {
        let begun = Instant::now();
        let old: Option<f64> = self.ask("SELECT @@innodb_max_dirty_pages_pct");
        {
            let mut conn = self.conn();
            let _ = conn.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 0");
            let _ = conn.query_drop("SET GLOBAL rocksdb_force_flush_memtable_now = 1");
        }
        let dirty = || {
            self.ask::<(String, i64)>("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
                .map_or(0, |(_, pages)| pages)
        };
        while dirty() > 0 && begun.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(200));
        }
        if let Some(old) = old {
            let _ = self
                .conn()
                .query_drop(format!("SET GLOBAL innodb_max_dirty_pages_pct = {old}"));
        }
        let (is_idle, waited) =
            lab_kit::idle::wait_idle(self.process().ok(), timeout.saturating_sub(begun.elapsed()));
        SettleResult {
            is_idle,
            remark: format!("{} dirty pages; {waited}", dirty()),
        }
    }

    async fn statistics(&self) -> serde_json::Value {
        let rows: Vec<(String, String)> =
            self.conn().query("SHOW GLOBAL STATUS").unwrap_or_default();
        rows.into_iter()
            .map(|(name, value)| (name, serde_json::Value::String(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    async fn drop_tables(&self) -> Result<(), TargetError> {
        for table in self.tables.iter() {
            let name = &table.name;
            self.conn()
                .query_drop(format!("DROP TABLE IF EXISTS `{name}`"))
                .map_err(Self::refusal_error(format!("to drop {name}")))?;
        }
        Ok(())
    }
}

/// The driver's address, the storage engine and the interface that an address of the lab names.
fn parse_address(given: &str) -> Result<(String, Option<String>, Interface), String> {
    let (base, query) = given.split_once('?').unwrap_or((given, ""));
    let (mut engine, mut interface) = (None, Interface::Select);
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("engine", value))
                if value
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '_') =>
            {
                engine = Some(value.to_owned());
            }
            Some(("interface", "select")) => interface = Interface::Select,
            Some(("interface", "handler")) => interface = Interface::Handler,
            Some(("interface", value)) => {
                return Err(format!(
                    "interface is '{value}'; allowed is select or handler"
                ));
            }
            _ => rest.push(pair),
        }
    }
    let address = format!(
        "mysql{}{}{}",
        base.trim_start_matches("mysql")
            .trim_start_matches("mariadb"),
        if rest.is_empty() { "" } else { "?" },
        rest.join("&")
    );
    Ok((address, engine, interface))
}
