//! Writes HTML. It checks that elements end in the right order, and escapes text.

/// A document under construction.
pub(super) struct Html {
    out: String,
    open: Vec<String>,
}

impl Html {
    /// A document with this title and style, within its body.
    pub(super) fn new(title: &str, style: &str) -> Self {
        let out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{style}</style>\n\
             </head>\n<body>\n",
            escaped(title)
        );
        Self { out, open: Vec::new() }
    }

    /// Begins an element with these attributes.
    pub(super) fn open(&mut self, name: &str, attributes: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        self.out += &format!("<{name}{space}{attributes}>\n");
        self.open.push(name.into());
    }

    /// Ends the newest open element.
    pub(super) fn close(&mut self, name: &str) {
        assert_eq!(self.open.pop().as_deref(), Some(name), "elements end in the order in which they began");
        self.out += &format!("</{name}>\n");
    }

    /// An element with text in it.
    pub(super) fn element(&mut self, name: &str, attributes: &str, text: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        self.out += &format!("<{name}{space}{attributes}>{}</{name}>\n", escaped(text));
    }

    /// A term of a list of terms, with HTML that explains it.
    pub(super) fn term(&mut self, term: &str, html: &str) {
        self.out += &format!("<dt>{}</dt><dd>{html}</dd>\n", escaped(term));
    }

    /// Adds HTML without escaping it.
    pub(super) fn raw(&mut self, html: &str) {
        self.out += html;
        self.out.push('\n');
    }

    /// The document.
    pub(super) fn finish(self) -> String {
        assert!(self.open.is_empty(), "{:?} did not end", self.open);
        self.out + "</body>\n</html>\n"
    }
}

/// The text, escaped for use between tags and within attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_element() {
        let mut h = Html::new("a & b", "p {}");
        h.open("div", "class=\"x\"");
        h.element("p", "", "<script>\"");
        h.close("div");
        let page = h.finish();
        assert!(page.contains("<title>a &amp; b</title>") && page.contains("<div class=\"x\">"));
        assert!(page.contains("<p>&lt;script&gt;&quot;</p>") && page.ends_with("</body>\n</html>\n"));
    }

    #[test]
    #[should_panic(expected = "end in the order")]
    fn elements_end_in_their_order() {
        let mut h = Html::new("", "");
        h.open("div", "");
        h.open("p", "");
        h.close("div");
    }
}
