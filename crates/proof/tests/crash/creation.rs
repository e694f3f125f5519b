//! A loss of power while an engine creates its files: the directory must open.

use crate::check::{OpenFn, folder, start_system_anew};
use crate::recorder;
use proof::{Image, Loss, Random};

const IMAGES: u64 = 200;

/// Opens an engine on an empty directory, and tries images of every moment until it is open.
pub(crate) fn check(engine: &str, open: OpenFn) {
    let folder = folder();
    let live = folder.path().join("live");
    std::fs::create_dir(&live).expect("a folder");
    recorder::begin(&live);
    let opened = open(&live);
    let events = recorder::end();
    opened
        .and_then(|opened| opened.close())
        .expect("an empty directory");
    for seed in 0..IMAGES {
        let mut random = Random::new(seed);
        let loss = Loss::ALL[random.below(Loss::ALL.len())];
        let at = random.below(events.len() + 1);
        let mut image = Image::after_loss(&events, at, loss, &mut random);
        if loss != Loss::Nothing {
            start_system_anew(&mut image);
        }
        let path = folder.path().join(format!("image-{seed}"));
        image.write_to(&path).expect("an image");
        let closed = open(&path).and_then(|opened| opened.close());
        let what = format!(
            "{engine}, seed {seed}: {loss:?} at event {at} of {}",
            events.len()
        );
        assert!(closed.is_ok(), "{what}: {closed:?}");
        std::fs::remove_dir_all(&path).expect("removed");
    }
}
