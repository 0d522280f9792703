//! What the simulation found, each by its shortest replay: none of them comes again.

use lode_sim::{FaultSet, RunOptions, parse_ranges, run, shrink};

/// What went wrong, and the seed, the faults and the steps that showed it.
const FOUND: &[(&str, u64, &str, &str)] = &[
    (
        "a drive of which one EBLOCK held a lost page said that it was full, though others were mostly garbage",
        1439,
        "",
        "0-1,4,7,9-12,15-16,19-24,27,29-30,32,35,37-39,43-46,48-51,54,56,60-61,63,75-77,79-80",
    ),
    ("a scrub took stale reads for a lost page of the log", 4458, "", "24,54-55,57,59"),
    ("a check took a stale read for a first copy that is not whole", 769, "", "5,9-10,13"),
    (
        "of a page that GC copied to where a program was misdirected, the old place was looked at",
        889,
        "",
        "0-2,14,82-84",
    ),
    (
        "a drive of which most is passed over by alignment was told not to be full",
        474,
        "power-cut,torn-program",
        "0,11,17,19,27,35,42-43,46,49,52,54,60,69",
    ),
    ("a program that failed in the last tables of a closed drive was forgotten", 4768, "", "14-15"),
    (
        "an EBLOCK that could not be erased while a drive was closed was forgotten",
        4261,
        "",
        "1,5,21,30,33-35,37,43-44,48,50,53,55-56",
    ),
    (
        "what the log and the drive's own pages had open was counted once more as what they still take",
        2421,
        "",
        "0-1,6,10,16-17,19-20,28-29,33-35,43,48,52,59,61,63-65,67,70-71,75,87-89",
    ),
    (
        "an EBLOCK that ended empty was not used again before GC was told that none is left",
        43755,
        "",
        "0-2,5,7,11,13,16-17,32,35,38-39,62,65,67,69,72-73,75-76,80-81,83",
    ),
    (
        "GC took its last EBLOCKs for pages out of some that could not be emptied",
        96843,
        "",
        "0-4,6,9,11-19,22-28,34-39,45-46,50-51,58,69,71,81-82,84,91",
    ),
    (
        "a checkpoint that found a lost mapping page moved inlined pages by a log group each, and left the log full",
        106295,
        "",
        "0-1,5-7,11-12,17-18,28-29,33-34,36-38",
    ),
];

#[test]
fn what_was_found_does_not_come_again() {
    for (what, seed, faults, only) in FOUND {
        let faults = if faults.is_empty() { FaultSet::all() } else { FaultSet::parse(faults).unwrap() };
        let options = RunOptions { faults, only: Some(parse_ranges(only).unwrap()), ..RunOptions::default() };
        if let Some(replay) = shrink(&run(*seed, &options), &options, 100) {
            panic!("{what}: {replay}");
        }
    }
}
