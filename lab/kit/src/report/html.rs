//! Pieces that every page shares: head, foot, escaped text, cards of names and values.

use std::fmt::Write;

/// Everything before the content.
pub(super) fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n",
        escape(title),
        include_str!("page.css"),
    )
}

/// Everything after it.
pub(super) fn foot(remark: &str) -> String {
    format!(
        "<footer>Written by quarry-lab {}. \
            {}</footer>\n</main>\n<script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        escape(remark),
        include_str!("page.js"),
    )
}

/// With a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The class of a number on an axis: on a narrow page every second number is hidden.
pub(super) fn tick_class(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "tick"
    } else {
        "tick odd"
    }
}

/// The axes of a picture, for its caption: a narrow page has no space for them beside the picture.
pub(super) fn axes(y_title: &str, x_title: &str) -> String {
    format!(
        "<span class=\"axes\">Upright: {}; along: {}. </span>",
        escape(y_title),
        escape(x_title)
    )
}

/// Text for HTML, inside elements and attributes alike.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A card with rows of name and value.
pub(super) fn write_card(out: &mut String, title: &str, class: &str, rows: &[(String, String)]) {
    let _ = writeln!(
        out,
        "<div class=\"card\"><h3>{}</h3><table class=\"{class}\"><tbody>",
        escape(title)
    );
    for (name, value) in rows {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

pub(super) fn row(name: impl Into<String>, value: impl Into<String>) -> (String, String) {
    (name.into(), value.into())
}
