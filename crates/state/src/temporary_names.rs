//! Names of temporary collections that are noted on disk and not in use: the next operation that
//! needs one uses it again, so that most notes nothing. Promises: a name has one user at a time.
//! Must not know: how names are noted.

use model::Namespace;
use parking_lot::Mutex;

/// Most names that are kept for later.
const FREE_MAX: usize = 16;

/// The free names.
#[derive(Default)]
pub struct TemporaryNames(Mutex<Vec<Namespace>>);

impl TemporaryNames {
    /// Takes a free name in a database.
    pub fn take(&self, db: &str) -> Option<Namespace> {
        let mut free = self.0.lock();
        let at = free.iter().position(|ns| ns.db() == db)?;
        Some(free.swap_remove(at))
    }

    /// Keeps a name for later; false when there are enough.
    pub fn give_back(&self, ns: &Namespace) -> bool {
        let mut free = self.0.lock();
        let is_kept = free.len() < FREE_MAX;
        if is_kept {
            free.push(ns.clone());
        }
        is_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_user_and_few_are_kept() {
        let names = TemporaryNames::default();
        let name = |n: usize| Namespace::new("a", &format!("n{n}")).unwrap();
        assert!(names.give_back(&name(0)));
        assert_eq!(names.take("b"), None);
        assert_eq!(names.take("a"), Some(name(0)));
        assert_eq!(names.take("a"), None);
        let kept = (0..FREE_MAX + 4).filter(|n| names.give_back(&name(*n)));
        assert_eq!(kept.count(), FREE_MAX);
    }
}
