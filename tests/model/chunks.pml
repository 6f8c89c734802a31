/* A channel's chain of chunks: how a chunk goes from the pool through the cell `spare` into the chain, and from
 * the chain through the cell `dying` back, with a SIGKILL possible between any two stores.
 *
 * Follows src/channel/put.cpp, get.cpp (next_chunk), channels.cpp (repair_tail, repair_head) and chunk_pool.cpp,
 * whose two changes are single steps here because their redo record makes them so.
 *
 * Checked
 *   K1  a getter finds a chunk at head, in it the record of head's sequence, and behind its end a next one
 *   K2  at the end, with the dead repaired: every chunk is in the pool, in the chain from head to tail, or in
 *       one of the two cells, and nowhere twice (C3)
 *   K3  nobody alive waits for ever
 *
 * -DSEED=1 keeps a spare whose put committed, -DSEED=2 gives a dying chunk back that did not leave the chain,
 * -DSEED=3 commits before the old chunk names its next: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef EACH
#define EACH 2
#endif
#define PROCESSES 4 /* two putters, two getters */
#define CHUNKS 3    /* 1 to CHUNKS; 0 is none */
#define UNITS 2     /* a record takes one */
#define NO_END 15
#define SEQUENCES 8
#define NOBODY 255

/* Positions are one word each in the code: always changed and read in one step here. */
byte tail_chunk, tail_unit, tail_seq, head_chunk, head_unit, head_seq;
byte spare, dying;
byte next[4], end_of[4], record[12]; /* record[chunk * UNITS + unit - 1] */
bool pooled[4];
byte tail_owner = NOBODY, head_owner = NOBODY;
bool killed[PROCESSES], done[PROCESSES];

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

/* From the pool, into the cell; the cell stays empty when there is none. */
inline take_into(cell) {
  if
  :: pooled[1] -> pooled[1] = false; cell = 1
  :: !pooled[1] && pooled[2] -> pooled[2] = false; cell = 2
  :: !pooled[1] && !pooled[2] && pooled[3] -> pooled[3] = false; cell = 3
  :: else
  fi
}
inline give_from(cell) {
  if
  :: cell != 0 -> assert(!pooled[cell]); pooled[cell] = true; cell = 0
  :: else
  fi
}
inline repair_tail() {
  if
  :: SEED != 1 && spare == tail_chunk -> spare = 0
  :: else
  fi
}
inline repair_head() {
  if
  :: SEED != 2 && dying == head_chunk -> dying = 0
  :: else -> give_from(dying)
  fi
}

#define LOCK(owner, repair) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: !killed[me] && owner == NOBODY -> owner = me; inherits = false \
    :: !killed[me] && owner != NOBODY && killed[owner] -> owner = me; inherits = true \
    fi \
  } \
  if \
  :: inherits -> STEP(repair()) \
  :: else \
  fi

proctype putter(byte me) {
  byte left = EACH, chunk, unit;
  bool inherits, fits;
  do
  :: left > 0 ->
    LOCK(tail_owner, repair_tail);
    atomic { fits = tail_chunk != 0 && tail_unit <= UNITS; chunk = tail_chunk; unit = tail_unit }
    if
    :: !fits ->
      STEP(if :: spare == 0 -> take_into(spare) :: else fi);
      if
      :: spare == 0 -> goto unlock /* the pool is empty: the code raises or waits */
      :: else
      fi;
      chunk = spare;
      unit = 1;
      STEP(next[chunk] = 0);
      STEP(end_of[chunk] = NO_END);
      if
      :: tail_chunk != 0 ->
#if SEED != 3
        STEP(end_of[tail_chunk] = tail_unit);
        STEP(next[tail_chunk] = chunk)
#endif
      :: else ->
        STEP(head_chunk = chunk; head_unit = 1; head_seq = tail_seq)
      fi
    :: else
    fi;
    STEP(record[(chunk - 1) * UNITS + unit - 1] = tail_seq);
    STEP(tail_chunk = chunk; tail_unit = unit + 1; tail_seq = (tail_seq + 1) % SEQUENCES);
    if
    :: !fits -> STEP(spare = 0)
    :: else
    fi;
unlock:
    STEP(tail_owner = NOBODY);
    left--
  :: else -> break
  od;
dead:
  done[me] = true
}

proctype getter(byte me) {
  byte left = EACH, chunk, unit, seq, last_chunk, after;
  bool inherits;
  do
  :: left > 0 ->
    LOCK(head_owner, repair_head);
    atomic { chunk = head_chunk; unit = head_unit; seq = head_seq }
    atomic {
      if
      :: seq == tail_seq -> goto unlock
      :: else -> last_chunk = tail_chunk
      fi
    }
    if
    :: chunk == 0 -> atomic { chunk = head_chunk; unit = head_unit; seq = head_seq }
    :: else
    fi;
    assert(killed[me] || chunk != 0); /* K1 */
    if
    :: chunk != last_chunk && unit == end_of[chunk] ->
      after = next[chunk];
      assert(killed[me] || after != 0); /* K1 */
      STEP(give_from(dying));
      STEP(dying = chunk);
      STEP(head_chunk = after; head_unit = 1; head_seq = seq);
      chunk = after;
      unit = 1;
      STEP(give_from(dying))
    :: else
    fi;
    STEP(assert(unit >= 1 && unit <= UNITS && record[(chunk - 1) * UNITS + unit - 1] == seq)); /* K1 */
    STEP(head_chunk = chunk; head_unit = unit + 1; head_seq = (seq + 1) % SEQUENCES);
unlock:
    STEP(head_owner = NOBODY);
    left--
  :: else -> break
  od;
dead:
  done[me] = true
}

/* After everybody: the ends that somebody died in are repaired, then all chunks are counted. */
proctype judge() {
  byte c, places, at;
  atomic {
    done[0] && done[1] && done[2] && done[3];
    if :: tail_owner != NOBODY -> repair_tail() :: else fi;
    if :: head_owner != NOBODY -> repair_head() :: else fi;
    c = 1;
    do
    :: c <= CHUNKS ->
      places = 0;
      if :: pooled[c] -> places++ :: else fi;
      /* A first put that died before its commit has made its spare chunk the head: it is in its cell. */
      if :: spare == c -> places++ :: else fi;
      if :: dying == c -> places++ :: else fi;
      if
      :: tail_chunk != 0 ->
        at = head_chunk;
        do
        :: at == c -> places++; break
        :: at != c && at == tail_chunk -> break
        :: else -> assert(at != 0); at = next[at]
        od
      :: else
      fi;
      assert(places == 1); /* K2 */
      c++
    :: else -> break
    od
  }
}

proctype killer() {
  byte kills, victim;
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
    pooled[1] = true;
    pooled[2] = true;
    pooled[3] = true;
    run putter(0);
    run putter(1);
    run getter(2);
    run getter(3);
    run judge();
    run killer()
  }
}
