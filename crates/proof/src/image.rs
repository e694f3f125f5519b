//! Possible states of a device after the end of a process or a loss of power, chosen by seed.
//!
//! The rules are those of the weakest journaling file systems of Linux. The part of a file covered
//! by a finished sync is there. Of later changes a part is there. Changes of names reach the device
//! in their order; to make the last of them durable, a directory must be synced.

use crate::random::Random;
use crate::trace::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process ends: all writes are there.
    Nothing,
    /// Everything not covered by a sync is lost.
    Unsynced,
    /// For each file the last writes are lost, and one write in part.
    Tails,
    /// Each sector or page not covered by a sync has its content of some time since the sync: a
    /// later write may be there without an earlier one elsewhere.
    Pages,
    /// Files have their length from before they were truncated; all writes are there.
    Cuts,
}

impl Loss {
    /// All kinds.
    pub const ALL: [Loss; 5] = [
        Loss::Nothing,
        Loss::Unsynced,
        Loss::Tails,
        Loss::Pages,
        Loss::Cuts,
    ];
}

/// Content of a file: its first bytes, followed by zeros up to its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Length in bytes, at least that of `bytes`.
    pub len: u64,
}

/// Files and directories by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Directories.
    pub directories: BTreeSet<String>,
    /// Files.
    pub files: BTreeMap<String, Content>,
}

impl Image {
    /// The image that a loss after the first `at` events leaves.
    pub fn after_loss(events: &[Event], at: usize, loss: Loss, random: &mut Random) -> Image {
        let events = events.get(..at).unwrap_or(events);
        let names_synced = last(events, |e| matches!(e, Event::SyncNames { .. })).unwrap_or(0);
        let names_kept = match loss {
            Loss::Nothing => events.len(),
            Loss::Unsynced => names_synced,
            _ => names_synced + random.below(events.len() - names_synced + 1),
        };
        let mut image = Image::default();
        let mut names = BTreeMap::new();
        let kept = events.get(..names_kept).unwrap_or_default();
        for event in kept.iter().filter(|e| e.changes_names()) {
            image.change_names(&mut names, event);
        }
        let files: BTreeSet<u32> = names.values().copied().collect();
        let contents: BTreeMap<u32, Content> = files
            .into_iter()
            .map(|file| (file, content(events, file, loss, random)))
            .collect();
        image.files = names
            .into_iter()
            .map(|(name, file)| (name, contents.get(&file).cloned().unwrap_or_default()))
            .collect();
        image
    }

    fn change_names(&mut self, names: &mut BTreeMap<String, u32>, event: &Event) {
        match event {
            Event::Create { path, file } => {
                names.insert(path.clone(), *file);
            }
            Event::Rename { from, to } if self.directories.contains(from) => {
                self.move_names(names, |name| move_below(name, from, to));
            }
            Event::Exchange { one, other } => self.move_names(names, |name| {
                move_below(name, one, other).or_else(|| move_below(name, other, one))
            }),
            Event::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Event::Link { from, to } => {
                if let Some(file) = names.get(from).copied() {
                    names.insert(to.clone(), file);
                }
            }
            Event::Remove { path } => {
                names.remove(path);
            }
            Event::MakeDirectory { path } => {
                self.directories.insert(path.clone());
            }
            Event::RemoveDirectory { path } => {
                self.directories.remove(path);
            }
            _ => {}
        }
    }

    /// Gives files and directories the names that `moved` gives for theirs.
    fn move_names(
        &mut self,
        names: &mut BTreeMap<String, u32>,
        moved: impl Fn(&str) -> Option<String>,
    ) {
        let new_name = |name: String| moved(&name).unwrap_or(name);
        self.directories = std::mem::take(&mut self.directories)
            .into_iter()
            .map(new_name)
            .collect();
        *names = std::mem::take(names)
            .into_iter()
            .map(|(name, file)| (new_name(name), file))
            .collect();
    }

    /// Writes the image into a directory, which is created.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn write_to(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        for name in &self.directories {
            fs::create_dir_all(directory.join(name))?;
        }
        for (name, content) in &self.files {
            let mut file = File::create(directory.join(name))?;
            file.write_all(&content.bytes)?;
            file.set_len(content.len)?;
        }
        Ok(())
    }
}

/// The new name of a directory, or of something in it, when it is renamed; `None` for others.
pub fn move_below(name: &str, from: &str, to: &str) -> Option<String> {
    let rest = name.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
}

/// Index after the last event of a kind.
fn last(events: &[Event], is: impl Fn(&Event) -> bool) -> Option<usize> {
    events.iter().rposition(is).map(|at| at + 1)
}

fn content(events: &[Event], file: u32, loss: Loss, random: &mut Random) -> Content {
    let synced = last(events, |e| *e == Event::Sync { file }).unwrap_or(0);
    let mut content = Content::default();
    let (covered, open) = events.split_at(synced);
    let of_file = |e: &&Event| e.changed_file() == Some(file);
    for event in covered.iter().filter(of_file) {
        content.apply(event);
    }
    let open: Vec<&Event> = open.iter().filter(of_file).collect();
    // The number of unsynced events that are kept completely.
    let whole = match loss {
        Loss::Nothing | Loss::Cuts => open.len(),
        Loss::Unsynced => 0,
        Loss::Tails | Loss::Pages => random.below(open.len() + 1),
    };
    let mut units = Units::new(&open, random);
    for (i, event) in open.into_iter().enumerate() {
        match event {
            Event::Write { durable: true, .. } => content.apply(event),
            Event::Resize { len, .. } if loss == Loss::Cuts && *len < content.len => {}
            _ if loss != Loss::Pages && i < whole => content.apply(event),
            Event::Write { at, bytes, .. } => match loss {
                Loss::Tails if i == whole => {
                    let kept = random.below(bytes.len() + 1);
                    content.write(*at, bytes.get(..kept).unwrap_or_default());
                }
                Loss::Pages => content.write_some(*at, bytes, &mut units),
                _ => {}
            },
            // Changes of length reach the device in their order.
            _ if i < whole => content.apply(event),
            _ => {}
        }
    }
    content
}

impl Content {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { at, bytes, .. } => self.write(*at, bytes),
            Event::Resize { len, .. } => {
                self.len = *len;
                self.bytes
                    .truncate(usize::try_from(*len).unwrap_or(usize::MAX));
            }
            Event::Extend { len, .. } => self.len = self.len.max(*len),
            _ => {}
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        if bytes.is_empty() {
            return;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(to) = self.bytes.get_mut(start..end) {
            to.copy_from_slice(bytes);
        }
        self.len = self.len.max(self.bytes.len() as u64);
    }

    /// Writes the units that are not yet at their limit of writes.
    fn write_some(&mut self, at: u64, bytes: &[u8], units: &mut Units) {
        for (unit, at, piece) in units.cut(at, bytes) {
            if units.takes(unit) {
                self.write(at, piece);
            }
        }
    }
}

/// The number of further writes that each sector or page of a file keeps.
struct Units {
    bytes: u64,
    left: BTreeMap<u64, usize>,
}

impl Units {
    fn new(open: &[&Event], random: &mut Random) -> Units {
        let mut units = Units {
            bytes: if random.chance(50) { 512 } else { 4096 },
            left: BTreeMap::new(),
        };
        for event in open {
            if let Event::Write { at, bytes, .. } = event {
                for (unit, ..) in units.cut(*at, bytes) {
                    *units.left.entry(unit).or_default() += 1;
                }
            }
        }
        for left in units.left.values_mut() {
            *left = random.below(*left + 1);
        }
        units
    }

    /// Pieces of a write: number of the unit, offset in the file, bytes.
    fn cut<'b>(&self, at: u64, bytes: &'b [u8]) -> Vec<(u64, u64, &'b [u8])> {
        let (mut at, mut rest, mut pieces) = (at, bytes, Vec::new());
        while !rest.is_empty() {
            let room = usize::try_from(self.bytes - at % self.bytes).unwrap_or(usize::MAX);
            let (piece, behind) = rest.split_at(room.min(rest.len()));
            pieces.push((at / self.bytes, at, piece));
            at += piece.len() as u64;
            rest = behind;
        }
        pieces
    }

    fn takes(&mut self, unit: u64) -> bool {
        match self.left.get_mut(&unit) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: u64, bytes: &[u8]) -> Event {
        Event::Write {
            file: 0,
            at,
            bytes: bytes.into(),
            durable: false,
        }
    }

    fn create() -> Event {
        Event::Create {
            path: "f".to_owned(),
            file: 0,
        }
    }

    fn sync_names() -> Event {
        Event::SyncNames {
            directory: String::new(),
        }
    }

    #[test]
    fn a_sync_keeps_what_is_before_it_and_a_name_needs_its_own() {
        let events = [
            create(),
            write(0, b"one"),
            Event::Sync { file: 0 },
            sync_names(),
            write(3, b"two"),
        ];
        let random = &mut Random::new(1);
        let at_end = |loss, random: &mut Random| Image::after_loss(&events, 5, loss, random).files;
        assert_eq!(at_end(Loss::Nothing, random)["f"].bytes, b"onetwo");
        assert_eq!(at_end(Loss::Unsynced, random)["f"].bytes, b"one");
        let mut lens = BTreeSet::new();
        for _ in 0..100 {
            let bytes = at_end(Loss::Tails, random)["f"].bytes.clone();
            assert!(b"onetwo".starts_with(&bytes[..]) && bytes.starts_with(b"one"));
            lens.insert(bytes.len());
        }
        assert_eq!(lens.len(), 4, "every place to tear is found");
        let nameless = Image::after_loss(&events, 3, Loss::Unsynced, random);
        assert!(nameless.files.is_empty(), "no directory was synced");
    }

    #[test]
    fn a_sector_that_has_a_write_has_those_before_it() {
        let events = [create(), sync_names(), write(0, b"one"), write(3, b"two")];
        let random = &mut Random::new(3);
        for _ in 0..100 {
            let image = Image::after_loss(&events, 4, Loss::Pages, random);
            assert!(b"onetwo".starts_with(&image.files["f"].bytes[..]));
        }
    }

    #[test]
    fn a_cut_that_no_sync_covered_may_be_undone() {
        let cut = Event::Resize { file: 0, len: 3 };
        let extended = Event::Extend { file: 0, len: 9 };
        let events = [create(), sync_names(), extended, write(0, b"one"), cut];
        let random = &mut Random::new(4);
        let len_after = |loss, random: &mut Random| {
            let image = Image::after_loss(&events, 5, loss, random);
            image.files["f"].len
        };
        assert_eq!(len_after(Loss::Nothing, random), 3);
        assert_eq!(len_after(Loss::Cuts, random), 9);
    }

    #[test]
    fn directories_move_with_what_is_in_them() {
        let make = |path: &str| Event::MakeDirectory {
            path: path.to_owned(),
        };
        let file = |path: &str, file| Event::Create {
            path: path.to_owned(),
            file,
        };
        let events = [
            make("a"),
            make("a/in"),
            file("a/in/f", 0),
            make("a.b"),
            file("a.b/g", 1),
            Event::Exchange {
                one: "a".to_owned(),
                other: "a.b".to_owned(),
            },
            Event::Rename {
                from: "a.b".to_owned(),
                to: "c".to_owned(),
            },
        ];
        let image = Image::after_loss(&events, 7, Loss::Nothing, &mut Random::new(1));
        let names: Vec<&str> = image.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["a/g", "c/in/f"]);
        let directories: Vec<&str> = image.directories.iter().map(String::as_str).collect();
        assert_eq!(directories, ["a", "c", "c/in"]);
    }

    #[test]
    fn pages_are_lost_in_no_order() {
        let events = [create(), sync_names(), write(0, &[7; 8192])];
        let random = &mut Random::new(2);
        let later_alone = (0..100).any(|_| {
            let image = Image::after_loss(&events, 3, Loss::Pages, random);
            let bytes = &image.files["f"].bytes;
            bytes.first() == Some(&0) && bytes.last() == Some(&7)
        });
        assert!(later_alone);
    }
}
