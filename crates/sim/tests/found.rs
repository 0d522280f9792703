//! What the simulation found, each by its shortest replay: none of them comes again.

use lode_sim::{FaultSet, KvScenario, Options, Scenario, Simulated, parse_ranges, run, shrink};

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
    (
        "each log group that found the host's file system full took one more EBLOCK, until none was left",
        52437,
        "",
        "0-3,5,7,10-11,13,15,19-24,26-27,29-31,34,36-41,43-44,46-48,50-51,53,57-61",
    ),
    (
        "a checkpoint said that the drive was full, when it was the host's file system",
        171085,
        "",
        "0-2,6-7,9,13,23-25,28,30-32,34-36,39-40,45-46,48-52,54,57-58,61,63-64,66,70",
    ),
    (
        "a close said that the drive was full, when it was the host's file system",
        183250,
        "",
        "33,36,51,53,55,58,60,79,81,97,99",
    ),
    (
        "EBLOCKs that could not be erased were not held against the spares, and a checkpoint had no room",
        187875,
        "",
        "20-21,23-24,32-33,37-38,61-62,101",
    ),
    (
        "the same, and a close had none",
        191770,
        "",
        "1,5,7-8,11-14,20,22,27,38,47,52,62,65-66,70,73,76,83,99,103-104,106,109,111-112",
    ),
    (
        "the same, and a batch of trims was refused",
        192167,
        "",
        "0-1,3,5-7,9,11-14,21-24,32,44,49-50,53,55-58",
    ),
    (
        "a drive was told not to be full for what a batch beside the refused one had trimmed",
        309744,
        "power-cut,program-fails,erase-fails,read-fails-for-good,no-space,write-error",
        "0-4",
    ),
    (
        "index entries that a lost write took along, and no batch, were missed",
        502539,
        "",
        "0-1,3,11,13-14,27,53",
    ),
    (
        "what an unforced batch wrote was looked for, though a later page of the log said that it was durable",
        1175,
        "",
        "0,3,9,11,19",
    ),
    (
        "the same, and what the batch before had written was used again, too",
        138,
        "",
        "0-1,3-5,22,24-25,27,34-36,40,42,56",
    ),
    (
        "a recovery that was cut short had used again what unforced groups had freed, and the next looked for what they wrote there",
        57830,
        "",
        "0,2,4-6",
    ),
    ("the same, after a flush", 43860, "", "0,4-8"),
    ("the same, after a forced batch", 54942, "", "0,3-5,7"),
    ("the same, late in a run", 18184, "", "0-2,6,25,27"),
];

/// The same of trees on a drive.
const FOUND_OF_TREES: &[(&str, u64, &str, &str)] = &[(
    "a transaction whose view the drive had closed took the root of a new tree, where that of a dropped one had been, for its own",
    325030,
    "",
    "38-39,42,50-51,55,60,62",
)];

fn come_not_again<S: Simulated>(found: &[(&str, u64, &str, &str)]) {
    for (what, seed, faults, only) in found {
        let mut options = Options::<S> { only: Some(parse_ranges(only).unwrap()), ..Options::default() };
        if !faults.is_empty() {
            options.faults = FaultSet::parse(faults).unwrap();
        }
        if let Some(replay) = shrink(&run(*seed, &options), &options, 100) {
            panic!("{what}: {replay}");
        }
    }
}

#[test]
fn what_was_found_does_not_come_again() {
    come_not_again::<Scenario>(FOUND);
}

#[test]
fn what_was_found_of_trees_does_not_come_again() {
    come_not_again::<KvScenario>(FOUND_OF_TREES);
}
