/* Several messages put and taken in one step, beside single ones: packed records, one commit for all of them, the
 * words that count bytes, and as many wake-ups as there are messages. A SIGKILL is possible between any two stores.
 *
 * Follows src/channel/batch.cpp (put_plain, take_plain), put.cpp and get.cpp, which are the steps of one message here,
 * and channels.cpp (reap). Each message has one byte. A step has at most two, in one record, within which the head may
 * stay, or in two. The chain of chunks is that of chunks.pml; falling asleep is one step with the last look,
 * which event.pml shows to be right. Nobody looks around by itself here, as the code does after a slice: the wake-ups
 * must suffice, also after a death.
 *
 * Checked
 *   B1  a getter finds whole records, in each the messages of the sequences that it asks for; what one putter put is
 *       taken in its order, each message once
 *   B2  a bound on messages or bytes is kept
 *   B3  at the end: a message that a put was through with is in the channel or was taken by a commit of the head, and
 *       of a step that a death ended all messages came or none
 *   B4  at the end: the bytes that are booked are those that are there
 *   B5  nobody alive sleeps while there is what it waits for
 *
 * -DSEED=1 puts an even number of messages where bytes are counted, -DSEED=2 takes one, -DSEED=3 leaves a record when
 * its first message is taken, -DSEED=4 commits before the last header is written, -DSEED=5 commits each record by
 * itself, -DSEED=6 wakes one getter for a batch, -DSEED=7 one putter, -DSEED=8 lets the reaper wake only one,
 * -DSEED=9 leaves the header of a record as it was whose last message is not put after all: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef TURNS
#define TURNS 2 /* calls of the first getter; the second one has one less */
#endif
#define PROCESSES 4 /* two putters, two getters */
#define MESSAGES 4  /* 0 to 2 are the first putter's, 3 is the second one's */
#define ROOM 2
#define UNITS 5     /* at most one is left empty by a message that is not put after all */
#define NOBODY 255

/* Positions are one word each in the code: always changed and read in one step here. */
byte tail_unit, tail_seq, head_unit, head_seq;
byte first[UNITS], count[UNITS], body[10]; /* body[2 * unit + place in the record] */
byte tail_bytes[2], head_bytes[2];         /* [sequence & 1] belongs to the committed position */
bool counts_bytes;
byte tail_owner = NOBODY, head_owner = NOBODY;
bool asleep[PROCESSES], killed[PROCESSES], done[PROCESSES], reaped[PROCESSES];
bool through[MESSAGES]; /* a step of a put that was finished had it */
bool gone[MESSAGES];    /* a commit of the head has taken it */
byte step_first[2], step_count[2]; /* what a putter's step is about */
byte to, most, before, place; /* within one step: nobody's */
bool last;

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

/* The first part of the step that takes a lock. Neither end has anything to repair: what is not committed is
 * overwritten. */
#define LOCK(owner) \
  if \
  :: killed[me] -> goto dead \
  :: !killed[me] && owner == NOBODY -> owner = me \
  :: !killed[me] && owner != NOBODY && killed[owner] -> owner = me \
  fi

/* At most so many of two sleepers; which one is the kernel's choice. A killed one may be among them. */
inline wake(a, b, most) {
  if
  :: most == 0
  :: most >= 2 -> asleep[a] = false; asleep[b] = false
  :: most == 1 && asleep[a] -> asleep[a] = false
  :: most == 1 && asleep[b] -> asleep[b] = false
  :: most == 1 && !asleep[a] && !asleep[b]
  fi
}

/* Of the message at the head's place: where it lies, and whether others follow in its record. */
inline look_up(u, s, where, is_last) {
  assert(s >= first[u] && s < first[u] + count[u]); /* B1 */
  where = 2 * u + s - first[u];
  is_last = s + 1 == first[u] + count[u]
}

proctype putter(byte me) {
  byte next, behind, seq, unit, n, written, in_last;
  if
  :: me == 0 -> next = 0; behind = 3
  :: else -> next = 3; behind = 4
  fi;
  do
  :: next < behind ->
    atomic {
      LOCK(tail_owner);
      /* The code looks at the head twice for that. */
      n = (counts_bytes -> tail_bytes[tail_seq & 1] - head_bytes[head_seq & 1] : tail_seq - head_seq);
      n = ROOM - n;
      if
      :: n > behind - next -> n = behind - next
      :: n > 1 && n <= behind - next -> n = 1 /* a put of one message */
      :: n <= behind - next
      fi;
      unit = tail_unit;
      seq = tail_seq
    }
    if
    :: n == 0 ->
      STEP(tail_owner = NOBODY; unit = 0; seq = 0; asleep[me] = (tail_seq - head_seq == ROOM));
end:
      atomic {
        if
        :: killed[me] -> goto dead
        :: !killed[me] && !asleep[me]
        fi
      }
    :: else ->
      do
      :: written < n ->
        atomic {
          if
          :: in_last = 1
          :: n - written >= 2 -> in_last = 2
          fi
        }
        STEP(body[2 * unit] = next + written;
             body[2 * unit + 1] = (in_last == 2 -> next + written + 1 : 0);
             if
             :: SEED != 4 || written + in_last < n -> first[unit] = seq + written; count[unit] = in_last
             :: else
             fi;
             written = written + in_last;
             unit++);
#if SEED == 5
        if
        :: !counts_bytes -> STEP(step_first[me] = next; step_count[me] = n; tail_unit = unit; tail_seq = seq + written)
        :: else
        fi
#endif
      :: else -> break
      od;
      if
      :: SEED != 1 && counts_bytes && n == 2 && in_last == 1 -> atomic { n = 1; unit-- }
      :: SEED != 1 && counts_bytes && n == 2 && in_last == 2 ->
        STEP(n = 1; if :: SEED != 9 -> count[unit - 1] = 1 :: else fi)
      :: else
      fi;
      STEP(step_first[me] = next; step_count[me] = n;
           if :: counts_bytes -> tail_bytes[(seq + n) & 1] = tail_bytes[seq & 1] + n :: else fi);
      STEP(tail_unit = unit; tail_seq = seq + n; assert(tail_seq - head_seq <= ROOM)); /* B2 */
#if SEED == 4
      STEP(first[unit - 1] = seq + n - in_last; count[unit - 1] = in_last);
#endif
      STEP(tail_owner = NOBODY;
           written = 0;
           do
           :: written < n -> through[next + written] = true; written++
           :: else -> break
           od;
           next = next + n;
           written = 0; in_last = 0; unit = 0; seq = 0);
      STEP(n = (SEED == 6 -> 1 : n); wake(2, 3, n); n = 0)
    fi
  :: else -> break
  od;
dead:
  atomic { asleep[me] = false; n = 0; written = 0; in_last = 0; unit = 0; seq = 0; next = 0; done[me] = true }
}

proctype getter(byte me) {
  byte turns = (me == 3 -> 1 : 0), unit, seq, n;
  do
  :: turns < TURNS ->
again:
    atomic {
      LOCK(head_owner);
      /* Nobody writes between head and tail: the walk is one look. */
      unit = head_unit;
      seq = head_seq;
      to = tail_seq;
      if
      :: most = 1 /* a get of one message */
      :: most = 2
      fi;
      do
      :: n < most && seq != to ->
        before = unit;
        look_up(unit, seq, place, last);
        if
        :: last || SEED == 3 -> unit++
        :: else
        fi;
        seq++;
        n++
      :: else -> break
      od;
      if
      :: SEED != 2 && counts_bytes && n == 2 -> n--; seq--; unit = before
      :: else
      fi;
      to = 0; most = 0; before = 0; place = 0; last = false
    }
    if
    :: n == 0 ->
      STEP(head_owner = NOBODY; unit = 0; seq = 0; asleep[me] = (head_seq == tail_seq));
end:
      atomic {
        if
        :: killed[me] -> goto dead
        :: !killed[me] && !asleep[me]
        fi
      }
      goto again
    :: else
    fi;
    if
    :: counts_bytes -> STEP(head_bytes[seq & 1] = head_bytes[head_seq & 1] + n)
    :: else
    fi;
    STEP(
      /* The account of what is taken: no part of the protocol. */
      before = head_unit;
      to = head_seq;
      do
      :: to != seq ->
        look_up(before, to, place, last);
        most = body[place];
        assert(!gone[most] && (most == 0 || most == 3 || gone[most - 1])); /* B1 */
        gone[most] = true;
        if :: last -> before++ :: else fi;
        to++
      :: else -> break
      od;
      to = 0; most = 0; before = 0; place = 0; last = false;
      head_unit = unit;
      head_seq = seq;
      unit = 0; seq = 0);
    STEP(head_owner = NOBODY);
    STEP(n = (SEED == 7 -> 1 : (counts_bytes -> 2 : n)); wake(0, 1, n); n = 0; turns++)
  :: else -> break
  od;
dead:
  atomic { asleep[me] = false; turns = TURNS; unit = 0; seq = 0; n = 0; done[me] = true }
}

/* Any live process. It frees the locks that the dead held, and wakes as many as have something to do. */
proctype reaper() {
  byte p;
end:
  do
  :: atomic {
      (done[0] && killed[0] && !reaped[0]) || (done[1] && killed[1] && !reaped[1]) ||
        (done[2] && killed[2] && !reaped[2]) || (done[3] && killed[3] && !reaped[3]) ->
      p = 0;
      do
      :: done[p] && killed[p] && !reaped[p] -> break
      :: else -> p++
      od;
      if :: tail_owner == p -> tail_owner = NOBODY :: else fi;
      if :: head_owner == p -> head_owner = NOBODY :: else fi;
      reaped[p] = true;
      p = tail_seq - head_seq;
      p = (SEED == 8 || p == 0 -> 1 : p);
      wake(2, 3, p);
      p = ROOM - (tail_seq - head_seq);
      p = (SEED == 8 || p == 0 -> 1 : p);
      wake(0, 1, p);
      p = 0
    }
  od
}

/* When nobody can do anything any more. */
proctype judge() {
  byte p, m, unit, seq, came;
  bool there[MESSAGES];
end:
  timeout;
  d_step {
    unit = head_unit;
    seq = head_seq;
    do
    :: seq != tail_seq ->
      look_up(unit, seq, place, last);
      m = body[place];
      assert(!there[m] && !gone[m]); /* B1 */
      there[m] = true;
      if :: last -> unit++ :: else fi;
      seq++
    :: else -> break
    od;
    assert(unit == tail_unit);
    m = 0;
    do
    :: m < MESSAGES -> assert(!through[m] || there[m] || gone[m]); m++ /* B3 */
    :: else -> break
    od;
    p = 0;
    do
    :: p < 2 ->
      m = step_first[p];
      came = 0;
      do
      :: m < step_first[p] + step_count[p] -> if :: there[m] || gone[m] -> came++ :: else fi; m++
      :: else -> break
      od;
      assert(came == 0 || came == step_count[p]); /* B3 */
      assert(!asleep[p] || killed[p] || tail_seq - head_seq == ROOM); /* B5 */
      assert(!asleep[p + 2] || killed[p + 2] || tail_seq == head_seq); /* B5 */
      p++
    :: else -> break
    od;
    if
    :: counts_bytes -> assert(tail_bytes[tail_seq & 1] - head_bytes[head_seq & 1] == tail_seq - head_seq) /* B4 */
    :: else
    fi
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
    if
    :: counts_bytes = true
    :: counts_bytes = false
    fi;
    run putter(0);
    run putter(1);
    run getter(2);
    run getter(3);
    run reaper();
    run judge();
    run killer()
  }
}
