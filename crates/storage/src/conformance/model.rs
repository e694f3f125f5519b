//! Random histories compared with a plain ordered map.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tools::{Factory, get, scan};
use crate::batch::{WriteBatch, counter_add, counter_decode, counter_encode};
use crate::engine::{CursorOpts, Durability, Engine, Snapshot};
use crate::keys::{KeyRange, SPREAD, Table};

type Map = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// A generator of its own, so that a seed always means the same history.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    // Few keys, so that operations meet the same key; bodies of several lengths, to test prefixes.
    fn key(&mut self) -> Vec<u8> {
        let ident = [1, 2, SPREAD | 1][self.below(3) as usize];
        let mut key = ident.to_be_bytes().to_vec();
        // Some long keys: engines with a limit of their own store those in another way.
        if self.below(6) == 0 {
            key.resize([470, 479, 480, 511, 700][self.below(5) as usize], b'm');
        }
        for _ in 0..self.below(4) {
            key.push([0, b'a', 0xFF][self.below(3) as usize]);
        }
        key
    }

    fn table(&mut self) -> Table {
        Table::ALL[self.below(Table::ALL.len() as u64) as usize]
    }
}

/// Runs `count` random operations on a fresh engine and on a map, comparing every answer.
///
/// # Panics
/// On the first difference; the message names the seed.
pub fn random_operations(factory: &dyn Factory, seed: u64, count: usize) {
    let mut random = Random(seed);
    let mut engine = factory.fresh();
    let mut map = Map::new();
    let mut held: Vec<(Arc<dyn Snapshot>, Map)> = Vec::new();
    for step in 0..count {
        let place = format!("seed {seed} step {step}");
        match random.below(100) {
            0..50 => write(&*engine, &mut map, &mut random),
            50..65 => {
                let (table, key) = (random.table(), random.key());
                let expected = map.get(&(table, key.clone())).cloned();
                assert_eq!(
                    get(&*engine, table, &key),
                    expected,
                    "{place}: {table:?} {key:02x?}"
                );
            }
            65..85 => compare_scan(&*engine, &map, &mut random, &place),
            85..90 => held.push((engine.snapshot().expect("a snapshot"), map.clone())),
            90..97 => {
                if !held.is_empty() {
                    let index = random.below(held.len() as u64) as usize;
                    let (snapshot, then) = &held[index];
                    compare_scan(&**snapshot, then, &mut random, &place);
                    if random.below(2) == 0 {
                        held.swap_remove(index);
                    }
                }
            }
            97..99 => engine.flush().expect("a flush"),
            _ => {
                held.clear();
                engine.close().expect("a close");
                drop(engine);
                match factory.reopen() {
                    // Scratch does not survive.
                    Some(again) => {
                        engine = again;
                        map.retain(|(table, _), _| *table != Table::Tmp);
                    }
                    None => {
                        engine = factory.fresh();
                        map.clear();
                    }
                }
            }
        }
    }
    engine.close().expect("a close");
}

fn write(engine: &dyn Engine, map: &mut Map, random: &mut Random) {
    let mut batch = WriteBatch::new();
    for _ in 0..random.below(6) {
        let (table, key) = (random.table(), random.key());
        match random.below(10) {
            0..6 => {
                let value = vec![random.next() as u8; random.below(40) as usize];
                batch.put(table, &key, &value);
                map.insert((table, key), value);
            }
            6..8 => {
                batch.delete(table, &key);
                map.remove(&(table, key));
            }
            8 if engine.caps().delete_range => {
                let upper = random.key();
                batch.delete_range(table, &key, &upper);
                map.retain(|(t, k), _| *t != table || *k < key || *k >= upper);
            }
            _ => {
                // Counters live in `Meta` only.
                let delta = [random.next() as i64 >> 8, 1];
                batch.add(Table::Meta, &key, delta);
                let cell = map.entry((Table::Meta, key)).or_default();
                *cell = counter_encode(counter_add(counter_decode(cell), delta)).to_vec();
            }
        }
    }
    let durability = if random.below(20) == 0 {
        Durability::Journaled
    } else {
        Durability::Buffered
    };
    engine
        .apply(&batch, durability)
        .expect("a random batch applies");
}

fn compare_scan(engine: &dyn crate::Reader, map: &Map, random: &mut Random, place: &str) {
    let (table, lower, upper) = (random.table(), random.key(), random.key());
    let opts = CursorOpts {
        reverse: random.below(2) == 0,
        ..CursorOpts::default()
    };
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = map
        .iter()
        .filter(|((t, k), _)| *t == table && *k >= lower && *k < upper)
        .map(|((_, k), v)| (k.clone(), v.clone()))
        .collect();
    if opts.reverse {
        expected.reverse();
    }
    let found = scan(engine, table, KeyRange::new(&lower, &upper), opts);
    assert_eq!(
        found, expected,
        "{place}: {table:?} {lower:02x?}..{upper:02x?} {opts:?}"
    );
}
