//! Days and dates of the proleptic Gregorian calendar.
//!
//! Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".

/// The days of a cycle of the calendar, 400 years.
pub const CYCLE_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Year, month and day of a number of days since 1970-01-01.
///
/// A year begins in March, so that a leap day ends it. Five months from March and from August have 153 days.
pub const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(EPOCH_DAYS);
    let (cycle, day) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE_DAYS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + (month <= 2) as i64, month, day_of_month)
}

/// Days since 1970-01-01 of a year, a month from 1 to 12, and a day.
pub const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    cycle * CYCLE_DAYS + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + day_of_year - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other_and_come_back() {
        assert_eq!((civil(0), civil(-1), civil(9_374)), ((1970, 1, 1), (1969, 12, 31), (1995, 9, 1)));
        let mut before = civil(-CYCLE_DAYS - 1);
        for days in -CYCLE_DAYS..CYCLE_DAYS {
            let date @ (year, month, day) = civil(days);
            assert!(date > before && (1..=12).contains(&month), "{date:?} after {before:?}");
            assert_eq!(days_of(year, month, day), days);
            before = date;
        }
    }
}
