/* A topic: writers with one lock, readers with none. What putting, dropping, repairing, reading and reaping do to
 * tail, oldest, a slot's two words and the rows of the ledger, with a SIGKILL possible between any two stores.
 *
 * Follows src/topic/topic_put.cpp, topic_get.cpp, topics.cpp. Stores are atomic and in order; the memory order
 * between processors is not modelled here. Each message carries one right; a reader adds a row of its own.
 *
 *   holder word of the message's row      0: given back    p + 1: process p    MESSAGE + seq: message seq
 *
 * Checked
 *   D1  what a reader has copied, and found not dropped afterwards, is the message that was put under this
 *       number, whole
 *   D2  a reader that cannot add a row was overtaken: a message that is on the topic has its right
 *   D3  a reader's row is never added to a block that was given up
 *   D4  at the end, with the dead reaped: a right of message seq exists iff oldest <= seq < tail (R2), no row of
 *       a reader is left, and what was put by a put that returned was put
 *   D5  nobody alive waits for ever (no invalid end state)
 *
 * -DSEED=1 leaves the repair out, -DSEED=2 releases before it says that the message is dropped, -DSEED=3 adds a
 * row without looking who holds the block, -DSEED=4 does not look again after copying: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 2
#endif
#define WRITERS 2
#define READERS 1
#define PROCESSES (WRITERS + READERS)
#define EACH 1 /* messages a writer puts; 2, or two readers, take minutes and gigabytes */
#define RIGHTS (WRITERS * EACH)
#define SLOTS 1
#define MESSAGE 16
#define NOBODY 255

byte tail, oldest;
byte slot_number[SLOTS], slot_right[SLOTS];
byte truth[RIGHTS];      /* which right message seq carries, + 1 */
byte holder[RIGHTS];
bool row[RIGHTS]; /* the reader's own */
bool given_up[RIGHTS];
byte lock_owner = NOBODY;
bool killed[PROCESSES], done[PROCESSES];
bool returned[RIGHTS];

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

/* The block goes with its last row. */
inline look_at_block(right) {
  if
  :: holder[right] == 0 && !row[right] -> given_up[right] = true
  :: else
  fi
}

/* One transaction of the ledger a row; here all of them, whose message is outside of [from, to). */
inline release_outside(from, to) {
  d_step {
    r = 0;
    do
    :: r < RIGHTS ->
      if
      :: holder[r] >= MESSAGE && (holder[r] - MESSAGE < (from) || holder[r] - MESSAGE >= (to)) ->
        holder[r] = 0;
        look_at_block(r)
      :: else
      fi;
      r++
    :: else -> break
    od;
    r = 0
  }
}
inline repair() {
  if
  :: SEED != 1 -> release_outside(oldest, tail)
  :: else
  fi
}
inline release_message(seq) {
  d_step {
    r = 0;
    do
    :: r < RIGHTS ->
      if
      :: holder[r] == MESSAGE + (seq) -> holder[r] = 0; look_at_block(r)
      :: else
      fi;
      r++
    :: else -> break
    od;
    r = 0
  }
}

proctype writer(byte me) {
  byte mine = me * EACH, r = 0;
  bool inherits = false;
  do
  :: mine < (me + 1) * EACH ->
    atomic {
      if
      :: killed[me] -> goto dead
      :: !killed[me] && lock_owner == NOBODY -> lock_owner = me; inherits = false
      :: !killed[me] && lock_owner != NOBODY && killed[lock_owner] -> lock_owner = me; inherits = true
      fi
    }
    if
    :: inherits -> STEP(repair())
    :: else
    fi;
    if
    :: tail - oldest == SLOTS ->
#if SEED == 2
      STEP(release_message(oldest));
      STEP(oldest = oldest + 1)
#else
      STEP(oldest = oldest + 1);
      STEP(release_message(oldest - 1))
#endif
    :: else
    fi;
    STEP(slot_right[tail % SLOTS] = mine + 1);
    STEP(slot_number[tail % SLOTS] = tail);
    STEP(holder[mine] = MESSAGE + tail; truth[tail] = mine + 1);
    STEP(tail = tail + 1);
    STEP(lock_owner = NOBODY; returned[mine] = true);
    mine++
  :: else -> break
  od;
dead:
  done[me] = true
}

proctype reader(byte me) {
  byte position = 0, number = 0, right = 0, turns = 0;
  bool there = false;
  do
  :: turns < 2 ->
    turns++;
    there = false;
    do
    :: true ->
      STEP(if :: position < oldest -> position = oldest :: else fi);
      if
      :: atomic { position == tail -> break }
      :: atomic { position != tail -> number = slot_number[position % SLOTS] }
      fi;
      STEP(right = slot_right[position % SLOTS]);
#if SEED != 4
      if
      :: atomic { oldest > position -> goto again }
      :: atomic { oldest <= position }
      fi;
#endif
      STEP(assert(number == position && right == truth[position])); /* D1 */
      atomic {
        if
        :: killed[me] -> goto dead
        :: !killed[me] && (SEED == 3 || holder[right - 1] == MESSAGE + position) ->
          assert(!given_up[right - 1]); /* D3 */
          row[right - 1] = true;
          there = true;
          break
        :: !killed[me] && SEED != 3 && holder[right - 1] != MESSAGE + position ->
          assert(oldest > position) /* D2 */
        fi
      }
again:
      skip
    od;
    if
    :: there ->
      STEP(position = position + 1);
      STEP(row[right - 1] = false; look_at_block(right - 1))
    :: else
    fi
  :: else -> break
  od;
dead:
  done[me] = true
}

/* Any live process; it waits here for the end of each. */
proctype reaper() {
  byte p = 0, r = 0, seq = 0;
  do
  :: p < PROCESSES ->
    done[p];
    if
    :: killed[p] ->
      atomic {
        if
        :: lock_owner != NOBODY && killed[lock_owner] -> repair(); lock_owner = NOBODY
        :: else
        fi
      }
      d_step {
        r = 0;
        do
        :: r < RIGHTS ->
          if :: holder[r] == p + 1 -> holder[r] = 0 :: else fi;
          if :: p >= WRITERS -> row[r] = false :: else fi;
          look_at_block(r);
          r++
        :: else -> break
        od
      }
    :: else
    fi;
    p++
  :: else -> break
  od;
  skip;
  d_step { /* D4 */
    r = 0;
    do
    :: r < RIGHTS ->
      assert(!row[r]);
      if
      :: holder[r] >= MESSAGE ->
        seq = holder[r] - MESSAGE;
        assert(seq >= oldest && seq < tail && truth[seq] == r + 1)
      :: else
      fi;
      if
      :: returned[r] ->
        seq = 0;
        do
        :: seq < tail && truth[seq] != r + 1 -> seq++
        :: else -> break
        od;
        assert(seq < tail)
      :: else
      fi;
      r++
    :: else -> break
    od;
    seq = oldest;
    do
    :: seq < tail -> assert(holder[truth[seq] - 1] == MESSAGE + seq); seq++
    :: else -> break
    od
  }
}

proctype killer() {
  byte kills = 0;
  byte victim;
end:
  do
  :: kills < KILLS ->
    atomic {
      select(victim : 0 .. PROCESSES - 1);
      if
      :: !done[victim] && !killed[victim] -> killed[victim] = true
      :: else
      fi;
      kills++
    }
  :: break
  od
}

init {
  atomic {
    byte right = 0;
    do
    :: right < RIGHTS -> holder[right] = right / EACH + 1; right++
    :: else -> break
    od;
    run writer(0);
    run writer(1);
    run reader(2);
    run reaper();
    run killer()
  }
}
