//! Pages in a real browser: every page under `lab/runs` and a new one open without a script error,
//! also when all switches are pressed. Without an installed Chromium the tests are skipped with a
//! message.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{lab, run};

/// Collects errors, starting before the page's own scripts run.
const BEFORE: &str = "<script>window.seen=[];\
    addEventListener('error',e=>seen.push(String(e.message)));\
    addEventListener('unhandledrejection',e=>seen.push(String(e.reason)));</script>";
/// Presses every button twice, opens every fold, moves over every chart, then writes the findings
/// into the page.
const AFTER: &str = "<script>\
    for(let i=0;i<2;i++)for(const b of document.querySelectorAll('button'))b.click();\
    for(const d of document.querySelectorAll('details'))d.open=true;\
    for(const s of document.querySelectorAll('svg')){const r=s.getBoundingClientRect();\
      for(const name of ['pointermove','pointerleave'])s.dispatchEvent(new \
      PointerEvent(name,{clientX:r.left+r.width/2,clientY:r.top+9}));}\
    document.documentElement.dataset.charts=String(document.querySelectorAll('svg').length);\
    document.documentElement.dataset.seen=seen.length?'ERRORS '+seen.join(' | '):'none';</script>";

/// Gives each row of steps the longest possible figure, and reports everything that exceeds the
/// edge of the window or of its cell, where it would be hidden or overlap its neighbour.
const FITS: &str = "<script>{const out=[];\
    for(const row of document.querySelectorAll('.steps tbody tr'))\
      row.lastElementChild.textContent='12,362\u{a0}\u{b1}\u{a0}142.6';\
    const root=document.documentElement;\
    if(root.scrollWidth>innerWidth)out.push('the page: '+root.scrollWidth);\
    for(const cell of document.querySelectorAll('.steps th,.steps td'))\
      if(cell.scrollWidth>cell.clientWidth+1)out.push(cell.textContent);\
    for(const svg of document.querySelectorAll('.plot svg')){\
      const box=svg.getBoundingClientRect();\
      if(box.right>innerWidth)out.push('a chart: '+box.right);}\
    root.dataset.charts=String(document.querySelectorAll('.steps tbody tr').length);\
    root.dataset.seen=out.length?'BEYOND '+out.join(' | '):'none';}</script>";

fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| {
        let answer = Command::new(name).arg("--version").output();
        answer.is_ok_and(|output| output.status.success())
    })
}

/// Opens a page in the browser and returns its findings and its number of charts.
fn open(browser: &str, page: &Path, scratch: &Path) -> (String, usize) {
    let text = std::fs::read_to_string(page).unwrap();
    let (head, rest) = text.split_once("<head>").expect("a page has a head");
    find_errors(
        browser,
        &format!("{head}<head>{BEFORE}{rest}{AFTER}"),
        scratch,
    )
}

/// A page in a frame of `width` pixels, whose findings are passed to the outer page. The frame is
/// necessary because a headless browser has no windows that narrow.
fn frame_page(page: &Path, script: &str, width: u32) -> String {
    let text = std::fs::read_to_string(page).unwrap() + script;
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<html><head></head><body><iframe style='width:{width}px;height:900px;border:0' \
        srcdoc=\"{text}\"></iframe><script>document.querySelector('iframe').onload=e=>\
        Object.assign(document.documentElement.dataset,\
        e.target.contentDocument.documentElement.dataset)</script></body></html>"
    )
}

/// The findings of a page's scripts, and their counts.
fn find_errors(browser: &str, text: &str, scratch: &Path) -> (String, usize) {
    let copy = scratch.join("page.html");
    std::fs::write(&copy, text).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            scratch.join("profile").display()
        ))
        .arg(format!("file://{}", copy.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let attribute = |name: &str| {
        let from = dom.split_once(&format!("data-{name}=\""))?.1;
        Some(from.split_once('"')?.0.to_owned())
    };
    let charts = attribute("charts").and_then(|text| text.parse().ok());
    (
        attribute("seen").unwrap_or_else(|| "the page was not drawn to its end".to_owned()),
        charts.unwrap_or(0),
    )
}

fn pages_below(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, out);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            out.push(path);
        }
    }
}

#[test]
fn pages_open_in_a_browser_without_a_script_error() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium is installed");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let target = format!("redb:{}", data.path().join("data").display());
    let ended = run(
        "point",
        &target,
        &["--seconds", "2", "--warmup-seconds", "1"],
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let mut pages = vec![ended.folder().join("report.html")];
    pages_below(&std::path::absolute("../runs").unwrap(), &mut pages);
    assert!(pages.len() > 1);
    for page in &pages {
        let (seen, charts) = open(browser, page, scratch.path());
        assert_eq!(seen, "none", "{}", page.display());
        let is_run = page.with_file_name("result.json").exists();
        assert!(charts > 0 || !is_run, "{} has no chart", page.display());
    }

    // The same check detects a fault if there is one.
    let broken = scratch.path().join("broken.html");
    let text = std::fs::read_to_string(&pages[0]).unwrap();
    std::fs::write(
        &broken,
        text.replacen("</body>", "<script>nowhere()</script></body>", 1),
    )
    .unwrap();
    let (seen, _) = open(browser, &broken, scratch.path());
    assert!(seen.starts_with("ERRORS"), "{seen}");
}

#[test]
fn a_page_of_several_steps_fits_a_wide_and_a_narrow_window() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium is installed");
        return;
    };
    let (scratch, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = format!("redb:{}", data.path().join("data").display());
    let more = ["--rows", "500", "--seconds", "1", "--warmup-seconds", "0"];
    let ended = run("kinds-of-write", &target, &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let page = ended.folder().join("report.html");
    // One page of two targets: its tables have a row for each, with ten figures.
    let other = format!("fjall:{}", data.path().join("other").display());
    let other = run("kinds-of-write", &other, &more);
    assert_eq!(other.status(), Some(0), "{}", other.complaint());
    let both = scratch.path().join("both.html");
    let (one, two) = (ended.folder(), other.folder());
    let words = [
        one.as_os_str(),
        two.as_os_str(),
        "--out".as_ref(),
        both.as_os_str(),
    ];
    let words = words.map(|word| word.to_str().unwrap());
    let drawn = lab(&["report", words[0], words[1], words[2], words[3]]);
    assert!(drawn.status.success(), "{drawn:?}");
    for (page, width) in [(&page, 1_200), (&page, 390), (&both, 1_200), (&both, 390)] {
        let (seen, rows) = find_errors(browser, &frame_page(page, FITS, width), scratch.path());
        assert_eq!(seen, "none", "at {width} pixels");
        assert!(rows > 1, "{rows} rows");
    }
}
