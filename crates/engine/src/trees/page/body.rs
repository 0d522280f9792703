//! What a page of a tree is, once it was checked.

use lode_base::prefetch::prefetch_bytes;
use lode_base::{Lpid, PageBuf};
use lode_page::{Node, NodeValue};

use super::{allocation, value};
use crate::EngineError;
use crate::trees::tree::Csn;

/// Bytes of a value's page that are prefetched. The CPU goes on by itself from there.
pub(crate) const PREFETCHED_BYTES: usize = 1024;
/// Bytes of the slots of a node that are prefetched before it is searched.
const PREFETCHED_SLOTS_BYTES: usize = 1024;

/// What a page is.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A node of a tree.
    Node(Node),
    /// A value that is a page of its own, header included.
    Value(PageBuf),
    /// The bitmap that says which pages of an extent are in use.
    Allocation(PageBuf),
    /// Nothing: the page was freed, and its LPID may be used again.
    Freed,
}

impl Body {
    /// Checks the bytes of a page; answers what it is, and the commit that wrote it.
    pub(crate) fn decode(lpid: Lpid, bytes: PageBuf) -> Result<(Csn, Self), EngineError> {
        let bad = |what: &str| EngineError::BadTreePage { lpid, what: what.into() };
        if value::is_one(&bytes) {
            let csn = value::check(lpid, &bytes).map_err(bad)?;
            return Ok((csn, Self::Value(bytes)));
        }
        if allocation::is_one(&bytes) {
            let csn = allocation::check(lpid, &bytes).map_err(bad)?;
            return Ok((csn, Self::Allocation(bytes)));
        }
        let node = Node::decode(lpid, bytes)?;
        Ok((Csn::new(node.csn()), Self::Node(node)))
    }

    /// The node that page `lpid` is.
    #[inline]
    pub(crate) fn node(&self, lpid: Lpid) -> Result<&Node, EngineError> {
        match self {
            Self::Node(n) => Ok(n),
            _ => Err(not_a_node(lpid)),
        }
    }

    /// The page of a value that page `lpid` is.
    #[inline]
    pub(crate) fn value_page(&self, lpid: Lpid) -> Result<&PageBuf, EngineError> {
        match self {
            Self::Value(page) => Ok(page),
            _ => Err(EngineError::BadTreePage { lpid, what: "not the page of a value".into() }),
        }
    }

    /// The bitmap that page `lpid` is.
    pub(crate) fn bitmap(&self, lpid: Lpid) -> Result<&PageBuf, EngineError> {
        match self {
            Self::Allocation(page) => Ok(page),
            _ => Err(not_a_bitmap(lpid)),
        }
    }

    /// Prefetches what is read first: the first bytes of a value, the header and the slots of a node.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Value(page) => prefetch_bytes(&page[..page.len().min(PREFETCHED_BYTES)]),
            Self::Node(node) => {
                let page = node.bytes();
                prefetch_bytes(&page[..1]);
                prefetch_bytes(&page[page.len() - page.len().min(PREFETCHED_SLOTS_BYTES)..]);
            }
            Self::Allocation(_) | Self::Freed => {}
        }
    }

    /// Prefetches the reference count of its page.
    pub(crate) fn prefetch_count(&self) {
        match self {
            Self::Node(node) => node.bytes().prefetch_count(),
            Self::Value(page) | Self::Allocation(page) => page.prefetch_count(),
            Self::Freed => {}
        }
    }

    /// Bytes of memory of its page.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Node(n) => n.bytes().memory_bytes(),
            Self::Value(b) | Self::Allocation(b) => b.memory_bytes(),
            Self::Freed => 0,
        }
    }
}

/// The page of a value that has one of its own.
#[inline]
pub(crate) fn page_of(value: NodeValue<'_>) -> Option<Lpid> {
    match value {
        NodeValue::Page(lpid) => Some(lpid),
        NodeValue::Inline(_) => None,
    }
}

pub(crate) fn not_a_node(lpid: Lpid) -> EngineError {
    EngineError::BadTreePage { lpid, what: "not a node".into() }
}

pub(crate) fn not_a_bitmap(lpid: Lpid) -> EngineError {
    EngineError::BadTreePage { lpid, what: "not an extent's bitmap".into() }
}
