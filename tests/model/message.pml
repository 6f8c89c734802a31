/* A right (lease) travels in a message: what sending, receiving, repairing and reaping do to the two commit
 * words and to the lease's holder word, with a SIGKILL possible between any two stores.
 *
 * Follows src/channel/put.cpp, get.cpp, channels.cpp (repair_tail, repair_head, Channels::reap) and
 * src/arena/ledger.cpp. Stores are atomic and in order (the code has a crash fence between them); the memory
 * order between processors is not modelled here.
 *
 *   holder word      0: given back    p + 1: process p    MESSAGE + seq: message seq of the channel
 *
 * Checked
 *   M1  whoever takes a message finds its right with it, and nobody took it before (assert in get)
 *   M2  at the end, with the dead reaped: a right of message seq exists iff head <= seq < tail (C2)
 *   M3  at the end: what was put by a put that returned is in the channel, was taken by the living, or was
 *       taken by one that was killed, at most one a kill
 *   M4  nobody alive waits for ever (no invalid end state)
 *
 * -DSEED=1 leaves the repair of the tail out, -DSEED=2 commits before the right has moved, -DSEED=3 leaves
 * the repair of the head out: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef EACH
#define EACH 1 /* messages a putter sends; 2 takes some minutes and 7 GB */
#endif
#ifndef KILLS
#define KILLS 2
#endif
#define PROCESSES 4      /* two putters, two getters */
#define RIGHTS (2 * EACH) /* right r belongs to putter r / EACH at first */
#define SEQUENCES 8      /* the code has 2^30; more than ever in transit at once */
#define MESSAGE 16
#define NOBODY 255

byte tail, head;          /* sequences, modulo SEQUENCES */
byte record[SEQUENCES];   /* the right that message seq carries, + 1 */
byte holder[RIGHTS];
byte tail_owner = NOBODY, head_owner = NOBODY;
bool killed[PROCESSES], reaped[PROCESSES], done[PROCESSES];
bool returned[RIGHTS];    /* its put returned */
bool taken[RIGHTS];       /* its get returned */
byte lost_in_get;         /* committed by a getter that was killed before it returned */

/* One store of process `me`, unless it was killed before it. */
#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

/* Gives back whatever names message `seq`; one row at a time in the code, each under the ledger's lock. */
inline release_message(seq) {
  d_step {
    r = 0;
    do
    :: r < RIGHTS -> if :: holder[r] == MESSAGE + (seq) -> holder[r] = 0 :: else fi; r++
    :: else -> break
    od;
    r = 0
  }
}
inline repair_tail() {
  if
  :: SEED != 1 -> release_message(tail)
  :: else
  fi
}
inline repair_head() {
  if
  :: SEED != 3 -> release_message((head + SEQUENCES - 1) % SEQUENCES)
  :: else
  fi
}

/* A robust mutex: a dead owner's lock passes on, and whoever gets it repairs first (it may die repairing). */
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
  byte mine = me * EACH, r = 0;
  bool inherits = false;
  do
  :: mine < (me + 1) * EACH ->
    LOCK(tail_owner, repair_tail);
    STEP(record[tail] = mine + 1);
#if SEED == 2
    STEP(tail = (tail + 1) % SEQUENCES);
    STEP(holder[mine] = MESSAGE + ((tail + SEQUENCES - 1) % SEQUENCES));
#else
    STEP(holder[mine] = MESSAGE + tail);
    STEP(tail = (tail + 1) % SEQUENCES);
#endif
    STEP(tail_owner = NOBODY; returned[mine] = true);
    mine++
  :: else -> break
  od;
dead:
  done[me] = true
}

proctype getter(byte me) {
  byte got = 0, seq = 0, r = 0, turns = 0;
  bool inherits = false;
  do
  :: turns < 2 ->
    LOCK(head_owner, repair_head);
    if
    :: atomic { head == tail -> got = 0 }
    :: atomic { head != tail -> got = record[head]; seq = head }
    fi;
    if
    :: got != 0 ->
      STEP(head = (head + 1) % SEQUENCES; lost_in_get = lost_in_get + 1);
      STEP(assert(holder[got - 1] == MESSAGE + seq && !taken[got - 1]); /* M1 */
           holder[got - 1] = me + 1);
      STEP(head_owner = NOBODY; taken[got - 1] = true; lost_in_get = lost_in_get - 1)
    :: else ->
      STEP(head_owner = NOBODY)
    fi;
    turns++
  :: else -> break
  od;
dead:
  done[me] = true
}

/* Any live process; the model has one, and the ends that it finds broken it repairs with the locks tried. */
proctype reaper() {
  byte p = 0, r = 0, seq = 0, missing = 0, kills = 0;
  bool inside;
  do
  :: p < PROCESSES ->
    done[p];
    if
    :: killed[p] ->
      atomic {
        if
        :: tail_owner != NOBODY && killed[tail_owner] -> repair_tail(); tail_owner = NOBODY
        :: else
        fi
      }
      atomic {
        if
        :: head_owner != NOBODY && killed[head_owner] -> repair_head(); head_owner = NOBODY
        :: else
        fi
      }
      d_step {
        r = 0;
        do
        :: r < RIGHTS -> if :: holder[r] == p + 1 -> holder[r] = 0 :: else fi; r++
        :: else -> break
        od
      }
      reaped[p] = true
    :: else
    fi;
    p++
  :: else -> break
  od;
  skip;
  d_step {
    p = 0;
    do
    :: p < PROCESSES -> if :: killed[p] -> kills++ :: else fi; p++
    :: else -> break
    od;
    r = 0;
    do
    :: r < RIGHTS ->
      if
      :: holder[r] >= MESSAGE ->
        seq = holder[r] - MESSAGE;
        inside = (seq + SEQUENCES - head) % SEQUENCES < (tail + SEQUENCES - head) % SEQUENCES;
        assert(inside && record[seq] == r + 1) /* M2 */
      :: else ->
        if
        :: returned[r] && !taken[r] -> missing++
        :: else
        fi
      fi;
      r++
    :: else -> break
    od;
    assert(missing <= lost_in_get && lost_in_get <= kills); /* M3 */
    seq = head;
    do
    :: seq != tail -> assert(holder[record[seq] - 1] == MESSAGE + seq); seq = (seq + 1) % SEQUENCES /* M2 */
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
    run putter(0);
    run putter(1);
    run getter(2);
    run getter(3);
    run reaper();
    run killer()
  }
}
