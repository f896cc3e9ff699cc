//! Medians and 95 % intervals of few samples.
//!
//! What is estimated is a median: of the ratios of pairs, or of one figure over the runs of an arm. One bad run of a shared machine
//! moves it little. Its interval is made in one of two ways, by the number of samples:
//!
//! 1. From six samples on, order statistics (the sign test turned round): the k-th smallest and k-th largest sample hold the median
//!    with at least 95 % whatever the distribution is, k taken from the binomial one. With six samples that is smallest and largest
//!    (96.9 %). W. J. Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2; J.-Y. Le Boudec, Performance Evaluation
//!    of Computer and Communication Systems, theorem 2.1 and table A.1.
//! 2. With two to five no two samples reach 95 % (five: 93.8 %), so noise must be given a shape: samples multiply by it, and its
//!    logarithm is normal. Then Student's interval of the logarithms holds the median of ratios at 95 %, and turning a ratio over turns the
//!    interval over. NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.2 and table 1.3.6.7.2. It is wide, as it must be: two pairs that
//!    differ by a tenth leave a factor of two either way.
//!
//! One sample has no interval. The bootstrap, usual elsewhere, covers far less than it says where samples are five; the test at the
//! end shows what these two cover. Two runs at different times are not paired: [`between`] is Welch's interval of their logarithms.

/// A median and how well it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The median of the samples.
    pub value: f64,
    /// Where the true one lies with 95 %; `None` where samples are too few or zero among few.
    pub interval: Option<(f64, f64)>,
    /// How many samples.
    pub samples: usize,
}

impl Estimate {
    /// What a reader must know of an interval that says little.
    pub fn caution(&self) -> Option<&'static str> {
        match (self.samples, self.interval) {
            (1, _) => Some("one pair, no interval"),
            (_, None) => Some("no interval: zeros among few pairs"),
            (2..=3, _) => Some("few pairs, a wide interval"),
            _ => None,
        }
    }
}

/// The median; `None` of nothing. Samples that are no numbers are left out.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median with its 95 % interval; `None` of nothing.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let sorted = sorted(samples);
    let value = median(&sorted)?;
    let interval = match sorted.len() {
        0 | 1 => None,
        2..=5 => student(&sorted),
        count => {
            let rank = rank(count);
            Some((sorted[rank - 1], sorted[count - rank]))
        }
    };
    Some(Estimate { value, interval, samples: sorted.len() })
}

/// How many times as much the samples of `second` are as those of `first`, with Welch's 95 % interval; `None` where one has nothing
/// above zero.
pub fn between(first: &[f64], second: &[f64]) -> Option<Estimate> {
    let (a, b) = (Logs::of(first)?, Logs::of(second)?);
    let value = (b.mean - a.mean).exp();
    let samples = a.count.min(b.count);
    if samples < 2 {
        return Some(Estimate { value, interval: None, samples });
    }
    let (of_a, of_b) = (a.variance / a.count as f64, b.variance / b.count as f64);
    let spread = of_a + of_b;
    let freedom = if spread > 0.0 {
        let below = of_a.powi(2) / (a.count - 1) as f64 + of_b.powi(2) / (b.count - 1) as f64;
        spread.powi(2) / below
    } else {
        (a.count + b.count - 2) as f64
    };
    let reach = (student_quantile(freedom) * spread.sqrt()).exp();
    Some(Estimate { value, interval: Some((value / reach, value * reach)), samples })
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Student's interval of the logarithms; `None` where a sample has none.
fn student(samples: &[f64]) -> Option<(f64, f64)> {
    let logs = Logs::of(samples)?;
    if logs.count < samples.len() {
        return None;
    }
    let count = logs.count as f64;
    let reach = student_quantile(count - 1.0) * (logs.variance / count).sqrt();
    Some(((logs.mean - reach).exp(), (logs.mean + reach).exp()))
}

struct Logs {
    count: usize,
    mean: f64,
    variance: f64,
}

impl Logs {
    /// Of the samples above zero; `None` where there are none.
    fn of(samples: &[f64]) -> Option<Logs> {
        let logs: Vec<f64> =
            samples.iter().filter(|sample| **sample > 0.0).map(|sample| sample.ln()).collect();
        let count = logs.len();
        if count == 0 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let variance = if count > 1 { squares / (count - 1) as f64 } else { 0.0 };
        Some(Logs { count, mean, variance })
    }
}

/// The largest rank from each end that still leaves at most 2.5 % beyond it; at least 1.
fn rank(count: usize) -> usize {
    if count > 1000 {
        let count = count as f64;
        return ((count - 1.96 * count.sqrt()) / 2.0).floor().max(1.0) as usize;
    }
    let mut term = 0.5f64.powi(count as i32);
    let mut below = term;
    let mut rank = 0;
    while below <= 0.025 {
        rank += 1;
        term *= (count + 1 - rank) as f64 / rank as f64;
        below += term;
    }
    rank.max(1)
}

/// The 97.5 % quantile of Student's distribution, by the whole degrees of freedom below, so never too small.
fn student_quantile(freedom: f64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    const NORMAL: f64 = 1.959_964;
    let whole = (freedom + 1e-9).floor().max(1.0);
    match TABLE.get(whole as usize - 1) {
        Some(quantile) => *quantile,
        // The first term of the expansion in one over the degrees of freedom.
        None => NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::Random;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-3 * right.abs().max(1.0)
    }

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 7.0, f64::INFINITY]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_sample_has_no_interval_and_says_so() {
        let one = estimate(&[1.5]).expect("a sample");
        assert_eq!((one.value, one.interval, one.samples), (1.5, None, 1));
        assert!(one.caution().is_some_and(|text| text.contains("no interval")));
    }

    #[test]
    fn few_samples_have_students_interval_of_the_logarithms() {
        // Logarithms 0 and 1: mean 0.5, deviation 0.7071, so 12.706 times a half either way.
        let two = estimate(&[1.0, std::f64::consts::E]).expect("samples");
        let (low, high) = two.interval.expect("an interval");
        assert!(near(low.ln(), 0.5 - 6.353) && near(high.ln(), 0.5 + 6.353), "{low} {high}");
        // Logarithms -1, 0, 0, 0, 1: deviation 0.70711, 2.776 * 0.70711 / sqrt 5.
        let e = std::f64::consts::E;
        let (low, high) =
            estimate(&[1.0 / e, 1.0, 1.0, 1.0, e]).and_then(|five| five.interval).expect("an interval");
        assert!(near(low.ln(), -0.877_85) && near(high.ln(), 0.877_85), "{low} {high}");
    }

    #[test]
    fn a_ratio_turned_over_has_its_interval_turned_over() {
        let ratios = [1.9, 2.2, 2.0, 2.4];
        let turned: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        let (low, high) = estimate(&ratios).and_then(|ratio| ratio.interval).expect("an interval");
        let (turned_low, turned_high) =
            estimate(&turned).and_then(|ratio| ratio.interval).expect("an interval");
        assert!(near(low, 1.0 / turned_high) && near(high, 1.0 / turned_low));
    }

    #[test]
    fn ranks_are_those_of_the_printed_tables() {
        let known =
            [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (15, 4), (17, 5), (20, 6), (50, 18)];
        for (count, expected) in known {
            assert_eq!(rank(count), expected, "of {count}");
        }
        assert!(rank(1000).abs_diff(rank(1001)) <= 1);
        let six = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0, 60.0]).expect("samples");
        assert_eq!((six.value, six.interval), (3.5, Some((1.0, 60.0))));
    }

    #[test]
    fn zeros_among_few_leave_no_interval_and_no_panic() {
        let zeros = estimate(&[0.0, 0.0, 1.0]).expect("samples");
        assert_eq!((zeros.value, zeros.interval), (0.0, None));
        assert_eq!(estimate(&[0.0; 6]).and_then(|zeros| zeros.interval), Some((0.0, 0.0)));
        assert_eq!(between(&[0.0], &[1.0]), None);
    }

    #[test]
    fn two_runs_are_compared_by_welch() {
        // Equal spread and count: degrees of freedom are the sum, 4; 2.776 * sqrt(2 * v / 3), v of logarithms 0, 0.1, 0.2 is 0.01.
        let first: Vec<f64> = [0.0f64, 0.1, 0.2].iter().map(|log| log.exp()).collect();
        let second: Vec<f64> = first.iter().map(|sample| sample * 2.0).collect();
        let ratio = between(&first, &second).expect("samples");
        let (low, high) = ratio.interval.expect("an interval");
        assert!(
            near(ratio.value, 2.0) && near((high / 2.0).ln(), 0.226_66) && near((2.0 / low).ln(), 0.226_66)
        );
        assert_eq!(between(&[1.0], &[2.0, 2.0]).and_then(|ratio| ratio.interval), None);
    }

    #[test]
    fn student_quantiles_never_jump_up() {
        let mut last = f64::INFINITY;
        for freedom in 1..200 {
            let quantile = student_quantile(f64::from(freedom));
            assert!(quantile < last && quantile > 1.959, "{freedom}: {quantile}");
            last = quantile;
        }
    }

    /// Share of experiments of `count` samples whose interval holds the true median.
    fn coverage(count: usize, mut sample: impl FnMut() -> f64, truth: f64) -> f64 {
        let experiments = 20_000;
        let held = (0..experiments).filter(|_| {
            let samples: Vec<f64> = (0..count).map(|_| sample()).collect();
            let interval = estimate(&samples).and_then(|estimate| estimate.interval);
            interval.is_some_and(|(low, high)| low <= truth && truth <= high)
        });
        held.count() as f64 / f64::from(experiments)
    }

    #[test]
    fn intervals_cover_what_they_say() {
        for count in 2..=12 {
            let mut random = Random::new(7 + count as u64);
            let covered = coverage(count, || 2.0 * (0.08 * random.normal()).exp(), 2.0);
            let most = if count <= 5 { 0.955 } else { 0.996 };
            assert!((0.945..most).contains(&covered), "{count} samples, log-normal: {covered}");
        }
        // One run in five is spoilt and far lower: order statistics do not mind, the median of that mixture being what it is.
        for count in 6..=12 {
            let mut random = Random::new(70 + count as u64);
            let mut skewed = || if random.unit() < 0.2 { 0.5 * random.unit() } else { 1.0 + random.unit() };
            let truth = 1.0 + (0.5 - 0.2) / 0.8;
            let covered = coverage(count, &mut skewed, truth);
            assert!(covered > 0.945, "{count} samples, skewed: {covered}");
        }
    }

    #[test]
    fn the_interval_between_two_runs_covers_what_it_says() {
        let mut random = Random::new(11);
        let experiments = 10_000;
        let held = (0..experiments).filter(|_| {
            let mut of = |level: f64, spread: f64, count: usize| -> Vec<f64> {
                (0..count).map(|_| level * (spread * random.normal()).exp()).collect()
            };
            let (first, second) = (of(100.0, 0.03, 5), of(150.0, 0.09, 4));
            let interval = between(&first, &second).and_then(|ratio| ratio.interval);
            interval.is_some_and(|(low, high)| low <= 1.5 && 1.5 <= high)
        });
        let covered = held.count() as f64 / f64::from(experiments);
        assert!((0.94..0.985).contains(&covered), "{covered}");
    }
}
