//! How many values may be alive while instructions are put in order: what is tried, and what of it is taken.

use crate::pipeline::REGISTER_LEVEL;
use crate::registers::{self, UNIT};

/// Values above which a function takes no more registers than threads are given anyway: with 32 registers a thread, two of them not to be given
/// away, an SM holds as many threads as it may.
const FREELY: u32 = 30;
/// Registers of a thread that are not for values: those that it may not name, and R1.
const RESERVED: u32 = registers::RESERVED + 1;
/// How many more values may be alive than must be, at most: so many, ...
const MORE: u32 = 8;
/// ... and one for so many.
const PART: u32 = 4;
/// How many values may be alive where one more is a load from far memory or leads to one, with few registers, usually and at most: threads with
/// no more than 32 registers have these for nothing, and a load that begins late is waited for once more.
const FEW_LOADS: u32 = 14;
const LOADS: u32 = 22;
const MOST_LOADS: u32 = 26;
/// Where values live in memory anyway, one more may for so many registers, for loads from far memory that are under way beside others: eight where threads have all
/// registers. With none each load is waited for; with sixteen, five of nine such kernels of FlagGems are as fast again within 2 %.
const IN_FLIGHT: u32 = 32;
/// Where an instruction takes more than so many cycles with all the registers that are usual, more of them are tried, too, up to all. They must make cycles times registers less by a
/// fifth, after which all threads of an SM together are done sooner, too: with 58 registers instead of 26 a kernel of 1,239 instructions has its 32 loads under way at once, and 0.82 of
/// the static cycles; with 176 instead of 80 an attention of ggml 0.37 of what it takes with waits for loads. (Before, no more than 61 were tried, and taken for a third of the cycles: of 683
/// modules of public code five have more registers since, all together 0.35 %, and take 0.37 to 0.87 of the time with waits.)
pub const WAITING: u64 = 3;
const SAVED: u128 = 5;
/// Registers count as much as cycles: as many threads fit on an SM as registers allow, so that half the cycles with twice the registers are no
/// gain. Of 2,175 modules of public code (2026-11-27) registers are 0.6 % fewer with 3, static cycles 0.25 % more, and by the timing model Triton's kernels take 1 % longer.
const POWER: u32 = 2;

/// How many values fit into the registers that threads are given where so many must fit.
pub fn given(values: u32) -> u32 {
    (values + RESERVED).next_multiple_of(UNIT) - RESERVED
}

/// How many more values may be alive than must be.
#[derive(Clone, Copy, Debug)]
pub struct Freedom {
    more: u32,
    freely: u32,
    /// The power of registers that weighs as much as the square of cycles.
    pub power: u32,
}

impl Freedom {
    /// That of a level of 0 to 10: at 5 what is usual, at 0 none, at 10 so many that an SM holds half as many threads, and cycles alone decide.
    pub fn of(level: u8) -> Freedom {
        let usual = u32::from(REGISTER_LEVEL);
        let (below, above) = (u32::from(level).min(usual), u32::from(level).saturating_sub(usual));
        let (more, freely) = (MORE * below / usual + 8 * above, FREELY + (FREELY + 2) * above / usual);
        Freedom { more, freely, power: POWER - (POWER * above.min(usual)).div_ceil(usual) }
    }

    /// How many values may be alive, from the fewest to the most, where so many must be and there are so many registers.
    pub fn rooms(self, least: u32, registers: u32) -> Vec<Room> {
        if self.more == 0 {
            let few = least.min(registers);
            return vec![Room { gprs: few, loads: few, full: u32::MAX }];
        }
        let usual = (least + self.more).min(self.freely.max(given(least)));
        if least > registers {
            return vec![Room { gprs: registers, loads: registers + registers.div_ceil(IN_FLIGHT), full: registers }];
        }
        let room = |gprs: u32, loads: u32| Room {
            gprs: gprs.min(registers),
            loads: loads.max(gprs).min(registers),
            full: u32::MAX,
        };
        let most = usual.max(least + self.more + least / PART);
        // With one more between the last two registers are 0.1 % fewer, static cycles as well (683 modules of public code); it is 3 to 5 % of compiling.
        let mut list = vec![room(least + 1, FEW_LOADS), room(usual, LOADS), room(most, MOST_LOADS)];
        list.dedup();
        list
    }

    /// How many more may be alive than in these rooms where much is waited for with all of them.
    pub fn beyond(self, rooms: &[Room], registers: u32) -> Vec<Room> {
        let Some(last) = rooms.last().filter(|r| self.more > 0 && r.full == u32::MAX) else { return Vec::new() };
        let wider = [3 * last.gprs / 2, 9 * last.gprs / 4].map(|n| given(n).min(registers));
        let mut list: Vec<Room> = wider.map(|n| Room { gprs: n, loads: n, full: u32::MAX }).to_vec();
        list.dedup();
        list.retain(|r| r.gprs > last.gprs);
        list
    }
}

/// So many values may be alive, and so many where one more is a load from far memory. Where more than `full` must be, that many count: the others live in
/// memory, and it is as if they were not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub gprs: u32,
    pub loads: u32,
    pub full: u32,
}

/// Which of these numbers of registers is the best for what each takes: the one that costs least, or one with which an SM still holds as many threads as it may, where
/// a quarter of the cycles goes with it.
pub fn choose(cycles: &[u64], rooms: &[Room], power: u32) -> Option<usize> {
    let least = (0..rooms.len()).min_by_key(|&r| cost(cycles[r], rooms[r].gprs, power))?;
    let free = (least + 1..rooms.len()).filter(|&r| rooms[r].gprs <= FREELY);
    Some(free.fold(least, |best, r| if cycles[r] < cycles[best] - cycles[best] / 4 { r } else { best }))
}

/// The best of the numbers from `more` on that make cycles times registers enough less than they are with `room`; that, if there is none.
pub fn wider(cycles: &[u64], rooms: &[Room], more: usize, room: usize, power: u32) -> usize {
    let product = |r: usize| u128::from(cycles[r]) * u128::from(rooms[r].gprs);
    let saves = |r: &usize| SAVED * product(*r) < (SAVED - 1) * product(room);
    let best = (more..rooms.len()).filter(saves).min_by_key(|&r| cost(cycles[r], rooms[r].gprs, power));
    best.unwrap_or(room)
}

/// What so many cycles with so many registers cost, to compare: the square of the cycles times this power of the registers.
fn cost(cycles: u64, gprs: u32, power: u32) -> u128 {
    u128::from(cycles.min(1 << 48)).pow(2) * u128::from(gprs).pow(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More registers must save cycles in keeping with how many more they are.
    #[test]
    fn registers_are_worth_cycles() {
        assert!(cost(100, 20, POWER) < cost(81, 25, POWER) && cost(100, 20, POWER) > cost(79, 25, POWER));
        assert!(cost(100, 20, POWER) < cost(51, 40, POWER) && cost(100, 20, POWER) > cost(49, 40, POWER));
        assert!(cost(u64::MAX, 255, POWER) >= cost(u64::MAX, 20, POWER));
        // Those that an SM has for all its threads are worth a quarter of the cycles, however many more they are.
        let rooms = |list: [u32; 3]| list.map(|gprs| Room { gprs, loads: gprs, full: u32::MAX });
        assert_eq!(choose(&[100, 74, 73], &rooms([16, 24, 30]), POWER), Some(1));
        assert_eq!(choose(&[100, 76, 76], &rooms([16, 24, 30]), POWER), Some(0));
        assert_eq!(choose(&[100, 74, 70], &rooms([20, 31, 40]), POWER), Some(0));
        // The higher the level, the less registers count.
        let powers: Vec<u32> = (0..=10).map(|l| Freedom::of(l).power).collect();
        assert!(powers[..=5] == [POWER; 6] && powers.is_sorted_by(|a, b| a >= b) && powers[10] == 0, "{powers:?}");
    }

    /// Few registers, the usual number and the most, as far as there are so many.
    #[test]
    fn there_are_steps_from_few_registers_to_many() {
        let of = |least, registers| -> Vec<u32> {
            let rooms = Freedom::of(REGISTER_LEVEL).rooms(least, registers);
            rooms.iter().map(|r| r.gprs).collect()
        };
        assert_eq!(of(100, 240), [101, 133]);
        assert_eq!(of(100, 110), [101, 110]);
    }

    /// Where loads are waited for one by one, up to all registers are tried, and taken where they save more cycles than they are more.
    #[test]
    fn many_registers_must_save_most_of_the_waiting() {
        let freedom = Freedom::of(REGISTER_LEVEL);
        let rooms = |gprs: u32| [Room { gprs, loads: gprs, full: u32::MAX }];
        let beyond = |gprs: u32, registers: u32| -> Vec<u32> {
            freedom.beyond(&rooms(gprs), registers).iter().map(|r| r.gprs).collect()
        };
        assert_eq!(beyond(31, 240), [53, 69]);
        assert_eq!(beyond(76, 240), [117, 173]);
        assert_eq!(beyond(120, 240), [181, 240]);
        assert_eq!(beyond(31, 40), [40]);
        assert!(beyond(240, 240).is_empty());
        assert!(Freedom::of(0).beyond(&rooms(31), 240).is_empty());
        let rooms = [30, 45, 60].map(|gprs| Room { gprs, loads: gprs, full: u32::MAX });
        assert_eq!(wider(&[300, 120, 118], &rooms, 1, 0, POWER), 1);
        assert_eq!(wider(&[300, 120, 80], &rooms, 1, 0, POWER), 2);
        assert_eq!(wider(&[300, 160, 120], &rooms, 1, 0, POWER), 0);
    }
}
