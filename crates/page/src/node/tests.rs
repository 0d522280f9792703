use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn lpid(n: u64) -> Lpid {
    Lpid::from_raw(n).unwrap()
}

fn entries(node: &NodeMut) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let node = Node::decode(node.lpid(), node.clone().finish_exact()).unwrap();
    let mut all = BTreeMap::new();
    let mut key = Vec::new();
    for i in 0..node.entries() {
        node.read_key(i, &mut key);
        let NodeValue::Inline(v) = node.value(i) else { panic!("a page") };
        assert!(all.insert(key.clone(), v.to_vec()).is_none());
        assert_eq!(node.find(&key), Ok(i));
    }
    all
}

fn filled(model: &BTreeMap<Vec<u8>, Vec<u8>>) -> NodeMut {
    let mut node = NodeMut::empty(lpid(1), 0, &[], None);
    for (k, v) in model {
        node.put(k, NodeValue::Inline(v));
    }
    node
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..12)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

proptest! {
    #[test]
    fn a_node_does_what_a_map_does(
        ops in prop::collection::vec((key(), prop::option::weighted(0.7, value())), 1..120),
    ) {
        let mut model = BTreeMap::new();
        let mut node = NodeMut::empty(lpid(1), 0, &[], None);
        for (k, v) in ops {
            match v {
                Some(v) => {
                    let new = node.put(&k, NodeValue::Inline(&v));
                    prop_assert_eq!(new, model.insert(k, v).is_none());
                }
                None => prop_assert_eq!(node.delete(&k), model.remove(&k).is_some()),
            }
            prop_assert!(check(lpid(1), &node.buf_for_tests()).is_ok());
        }
        prop_assert_eq!(entries(&node), model);
    }

    #[test]
    fn the_parts_of_a_split_are_the_whole(
        model in prop::collection::btree_map(key(), value(), 2..60), at in any::<prop::sample::Index>(),
    ) {
        let node = filled(&model);
        let Split { separator, left, right } = node.split(lpid(2), at.index(model.len()));
        let (a, b) = (entries(&left), entries(&right));
        prop_assert!(!a.is_empty() && !b.is_empty());
        prop_assert!(a.keys().all(|k| *k < separator) && b.keys().all(|k| *k >= separator));
        prop_assert_eq!(left.high(), Some(&separator[..]));
        prop_assert_eq!(right.low(), &separator[..]);
        let both: BTreeMap<_, _> = a.clone().into_iter().chain(b).collect();
        prop_assert_eq!(&both, &model);
        let mut again = filled(&model);
        again.truncate(&separator);
        prop_assert_eq!(entries(&again), a);
        prop_assert_eq!(entries(&left.merged(&right, &separator)), model);
    }

    #[test]
    fn inner_nodes_find_the_child_of_every_key(
        keys in prop::collection::btree_set(key(), 6..40), probe in key(), last in any::<prop::sample::Index>(),
    ) {
        let keys: Vec<Vec<u8>> = keys.into_iter().filter(|k| !k.is_empty()).collect();
        prop_assume!(keys.len() >= 5);
        let mut node = NodeMut::empty(lpid(1), 1, &[], None);
        node.put(&[], NodeValue::Page(lpid(100)));
        for (i, k) in (1..).zip(&keys) {
            node.put(k, NodeValue::Page(lpid(100 + i)));
        }
        let expected = lpid(100 + keys.iter().filter(|k| **k <= probe).count() as u64);
        prop_assert_eq!(node.child_for(&probe).1, expected);
        let Split { separator, left, right } = node.split(lpid(2), last.index(node.entries()));
        for part in [&left, &right] {
            // Seed 41 of the simulation of trees: long keys in order left inner nodes of one child, and 18 levels for 90 keys.
            prop_assert!(part.entries() >= 3, "{} children", part.entries());
            Node::decode(part.lpid(), part.clone().finish_exact()).unwrap();
        }
        let part = if probe < separator { &left } else { &right };
        prop_assert_eq!(part.child_for(&probe).1, expected);
        let merged = left.merged(&right, &separator);
        Node::decode(lpid(1), merged.clone().finish_exact()).unwrap();
        prop_assert_eq!(merged.child_for(&probe).1, expected);
        prop_assert_eq!(merged.entries(), node.entries());
    }

    /// Keys of which many have the same head, or the same first eight bytes, or are the beginning of others.
    #[test]
    fn a_key_is_found_where_it_is_in_order(
        keys in prop::collection::btree_set(prop::collection::vec(0u8..2, 0..14), 0..90),
        probes in prop::collection::vec(prop::collection::vec(0u8..2, 0..14), 40),
    ) {
        let model = keys.iter().map(|k| (k.clone(), vec![1])).collect();
        let node = Node::decode(lpid(1), filled(&model).finish_exact()).unwrap();
        let sorted: Vec<&Vec<u8>> = keys.iter().collect();
        for probe in probes.iter().chain(&keys) {
            prop_assert_eq!(node.find(probe), sorted.binary_search(&probe), "{:?}", probe);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        model in prop::collection::btree_map(key(), value(), 0..20), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = filled(&model).finish_exact().to_vec();
        for (at, b) in flips {
            let at = at.index(bytes.len());
            bytes[at] = b;
        }
        bytes[8..16].copy_from_slice(&7u64.to_le_bytes());
        fuzz(&bytes);
    }
}

#[test]
fn a_separator_is_as_short_as_can_be() {
    assert_eq!(separator(b"abc", b"abd"), b"abd");
    assert_eq!(separator(b"a", b"bcd"), b"b");
    assert_eq!(separator(b"", b"xyz"), b"x");
    assert_eq!(separator(b"ab", b"abc"), b"abc");
}

#[test]
fn keys_that_arrive_in_order_leave_full_nodes() {
    let model = (0..50u32).map(|i| (i.to_be_bytes().to_vec(), vec![1; 10])).collect();
    let split = filled(&model).split(lpid(2), 49);
    assert_eq!((split.left.entries(), split.right.entries()), (49, 1));
}
