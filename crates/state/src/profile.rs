//! Which operations are recorded: levels and filters by database, and the thresholds of slow
//! operations. Promises: the check costs two loads as long as no operation is recorded.

use model::DocBuf;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// Profiling of one database, set by the command `profile`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileLevel {
    /// 0 off, 1 slow operations, 2 all.
    pub level: i32,
    /// Only operations that match are recorded.
    pub filter: Option<DocBuf>,
}

/// The thresholds of slow operations, for all databases.
#[derive(Clone, Copy, Debug)]
pub struct SlowThreshold {
    /// Duration in milliseconds above which an operation is slow.
    pub ms: i32,
    /// Fraction of the slow operations that is recorded.
    pub sample_rate: f64,
}

#[derive(Debug)]
struct Settings {
    levels: BTreeMap<String, ProfileLevel>,
    /// The level of databases for which no command has set one.
    level: i32,
    slow: SlowThreshold,
}

/// The profiling settings.
#[derive(Debug)]
pub struct Profile {
    settings: Mutex<Settings>,
    /// Whether some database has a level or a filter.
    on: AtomicBool,
    slow_us: AtomicI64,
}

impl Default for Profile {
    fn default() -> Profile {
        let slow = SlowThreshold {
            ms: 100,
            sample_rate: 1.0,
        };
        Profile {
            settings: Mutex::new(Settings {
                levels: BTreeMap::new(),
                level: 0,
                slow,
            }),
            on: AtomicBool::new(false),
            slow_us: AtomicI64::new(i64::from(slow.ms) * 1000),
        }
    }
}

impl Profile {
    /// Whether an operation of this duration may have to be recorded.
    ///
    /// # Cost
    /// Two loads.
    pub fn concerns(&self, took_us: u64) -> bool {
        // mongod counts whole milliseconds, and an operation must exceed the threshold.
        let slow_us = self.slow_us.load(Relaxed);
        i64::try_from(took_us).unwrap_or(i64::MAX) >= slow_us.saturating_add(1000)
            || self.on.load(Relaxed)
            || slow_us < 0
    }

    /// Whether some database has a level or a filter.
    ///
    /// # Cost
    /// One load.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// The level of a database, and the thresholds of slow operations.
    pub fn of(&self, db: &str) -> (ProfileLevel, SlowThreshold) {
        let settings = self.settings.lock();
        let level = settings.levels.get(db).cloned().unwrap_or(ProfileLevel {
            level: settings.level,
            filter: None,
        });
        (level, settings.slow)
    }

    /// Sets the level of a database and the thresholds; with `None` the level stays.
    pub fn set(&self, db: &str, level: Option<ProfileLevel>, slow: SlowThreshold) {
        self.change(|settings| {
            if let Some(level) = level {
                settings.levels.insert(db.to_owned(), level);
            }
            settings.slow = slow;
        });
    }

    /// Sets the level of databases for which no command has set one, and the thresholds.
    pub fn set_default(&self, level: i32, ms: Option<i32>, sample_rate: Option<f64>) {
        self.change(|settings| {
            settings.level = level;
            let slow = &mut settings.slow;
            slow.ms = ms.unwrap_or(slow.ms);
            slow.sample_rate = sample_rate.unwrap_or(slow.sample_rate);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock();
        change(&mut settings);
        let any = |l: &ProfileLevel| l.level > 0 || l.filter.is_some();
        let on = settings.level > 0 || settings.levels.values().any(any);
        self.on.store(on, Relaxed);
        let slow_us = i64::from(settings.slow.ms) * 1000;
        self.slow_us.store(slow_us, Relaxed);
    }
}
