/* The event count that heals itself (src/sync/event_count.h, event.cpp): sleepers are counted, a killed sleeper
 * leaves its count behind, and a notifier that wakes nobody opens a new era.
 *
 * Every atomic instruction of the code is one step here, a SIGKILL possible before each. The futex is modelled
 * as the kernel gives it: the comparison of the bell and falling asleep are one step, and only the living
 * sleep.
 *
 * Checked
 *   E1  no lost wake-up: when the notifiers are through, nobody alive sleeps while there is something to take,
 *       unless a wake-up went to one that was killed before it took (the code's slices of 200 to 500 ms and its
 *       reaper cover that)
 *   E2  a stale count costs one system call: when all is quiet the count is at most the sleepers alive plus the
 *       dead of this era
 *
 * -DSEED=1 leaves the second look out (sleeping without asking again), -DSEED=2 opens a new era without ringing
 * the bell, -DSEED=3 registers before it reads the bell's value: the first two must be found, and so must the
 * third, since its ticket may carry the bell of a later era.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#define WAITERS 2
#define NOTIFIERS 2
#define ITEMS 1 /* that each notifier brings */

byte items;
byte bell;  /* grows by at most 2 * NOTIFIERS * ITEMS: never wraps here */
byte era, count;
bool asleep[WAITERS], killed[WAITERS], woken[WAITERS], finished[WAITERS];
byte swallowed; /* wake-ups that went to one that was killed before it took */
byte notifying = NOTIFIERS;

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

proctype waiter(byte me) {
  byte seen, mine;
  bool got = false;
again:
  STEP(if :: items > 0 -> items--; got = true; woken[me] = false :: else fi);
  if :: got -> goto out :: else fi;
#if SEED == 3
  STEP(mine = era; count++);
  STEP(seen = bell);
#else
  STEP(seen = bell);
  STEP(mine = era; count++);
#endif
#if SEED != 1
  STEP(got = items > 0);
  if :: got -> got = false; goto cancel :: else fi;
#endif
  STEP(asleep[me] = (bell == seen)); /* futex_wait */
end:
  atomic {
    if
    :: !asleep[me] && !killed[me]
    :: killed[me] -> asleep[me] = false; goto dead
    fi
  }
cancel:
  STEP(if :: era == mine && count != 0 -> count-- :: else fi);
  goto again;
dead:
  atomic { if :: woken[me] -> swallowed++ :: else fi };
out:
  finished[me] = true
}

/* At most `most` sleepers; which ones is the kernel's choice. */
inline wake_one() {
  if
  :: asleep[0] -> asleep[0] = false; woken[0] = true; n = 1
  :: asleep[1] -> asleep[1] = false; woken[1] = true; n = 1
  :: !asleep[0] && !asleep[1] -> n = 0
  fi
}
inline wake_all() {
  asleep[0] = false;
  asleep[1] = false
}

proctype notifier() {
  byte left = ITEMS, n, old_era, old_count;
  do
  :: left > 0 ->
    atomic { items++ }
    atomic { n = count }
    if
    :: n != 0 ->
      atomic { bell++ }
      atomic { wake_one() }
      if
      :: n == 0 ->
        atomic { old_era = era; old_count = count }
        if
        :: old_count != 0 ->
          atomic {
            if
            :: era == old_era && count == old_count -> era++; count = 0; n = 1
            :: else -> n = 0
            fi
          }
          if
          :: n == 1 ->
#if SEED != 2
            atomic { bell++ }
#endif
            atomic { wake_all() }
          :: else
          fi
        :: else
        fi
      :: else
      fi
    :: else
    fi;
    left--
  :: else -> break
  od;
  notifying--
}

/* Once the notifiers are through and everybody sleeps or is done. */
proctype judge() {
end:
  atomic {
    notifying == 0 && (asleep[0] || finished[0]) && (asleep[1] || finished[1]) ->
      assert(items <= swallowed || !((asleep[0] && !killed[0]) || (asleep[1] && !killed[1]))) /* E1 */
      assert(count <= WAITERS) /* E2 */
  }
}

proctype killer() {
  byte kills = 0;
end:
  do
  :: kills < KILLS ->
    atomic {
      if
      :: !killed[0] && !finished[0] -> killed[0] = true
      :: !killed[1] && !finished[1] -> killed[1] = true
      :: else
      fi;
      kills++
    }
  :: break
  od
}

init {
  atomic {
    run waiter(0);
    run waiter(1);
    run notifier();
    run notifier();
    run judge();
    run killer()
  }
}
