/* A pipe's tokens (src/channel/pipe.h, pipe.cpp): messages lie in a channel, and a socket beside it carries
 * bytes that wake a reader who sleeps in poll(2). Two writers and two readers share the ends; a SIGKILL is
 * possible at every step. The socket is a count of tokens; the channel a count of messages, whose puts and
 * takes are single steps under the end's lock (message.pml looks inside).
 *
 * Checked, for an end that somebody selects on (the exception for spinning readers is left out)
 *   K   while a message is in the channel and no writer is inside, there is a token, unless a writer was killed
 *       between its commit and its token
 *   P1  nobody alive sleeps for ever while there is a message, with the same exception
 *
 * -DSEED=1 removes as many tokens as there were, not the excess; -DSEED=2 asks the channel first and the
 * socket then: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef EACH
#define EACH 1 /* messages of each writer */
#endif
#define PROCESSES 4
#define NOBODY 255

byte tail, head;  /* sequences */
byte socket;      /* tokens in it */
byte sent, seen;  /* tokens_sent, tokens_read */
byte tail_owner = NOBODY, head_owner = NOBODY;
bool killed[PROCESSES], done[PROCESSES], asleep[PROCESSES];
byte between; /* writers killed between commit and token */

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }
#define LOCK(owner) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: !killed[me] && (owner == NOBODY || killed[owner]) -> owner = me \
    fi \
  }

proctype writer(byte me) {
  byte left = EACH, at, mine, read, count;
  bool committed = false;
  do
  :: left > 0 ->
    LOCK(tail_owner);
    STEP(mine = tail; tail++; committed = true);
    STEP(at = head);
    if
    :: at == mine + 1 -> goto rung /* taken already */
    :: else
    fi;
    STEP(read = seen);
    STEP(count = sent);
    if
    :: count < read -> count = read
    :: else
    fi;
    if
    :: at != mine && count != read -> goto rung
    :: else
    fi;
    STEP(socket++; committed = false);
    STEP(sent = count + 1);
rung:
    STEP(committed = false; tail_owner = NOBODY);
    left--
  :: else -> break
  od;
dead:
  atomic {
    if :: committed -> between++ :: else fi;
    done[me] = true
  }
}

/* Reads until all are read that will ever come (what a dead writer did not send is told to it). */
proctype reader(byte me) {
  byte there, messages;
  bool took;
  do
  :: true ->
    took = false;
    LOCK(head_owner);
    STEP(if :: head != tail -> head++; took = true :: else fi);
    STEP(head_owner = NOBODY);
    if
    :: took ->
      if
      :: sent == seen -> goto next
      :: else -> goto settle
      fi
    :: else
    fi;
    STEP(if :: head != tail -> goto next :: else fi);
    STEP(asleep[me] = true);
end:
    atomic {
      if
      :: killed[me] -> asleep[me] = false; goto dead
      :: !killed[me] && socket != 0 -> asleep[me] = false /* poll */
      fi
    }
    STEP(if :: head != tail -> goto next :: else fi);
settle:
    LOCK(head_owner);
#if SEED == 2
    STEP(messages = tail - head);
    STEP(there = socket);
#else
    STEP(there = socket);
    STEP(messages = tail - head);
#endif
#if SEED == 1
    messages = 0;
#endif
    if
    :: there > messages ->
      STEP(seen = seen + there - messages);
      STEP(socket = socket - (there - messages))
    :: else
    fi;
    STEP(head_owner = NOBODY);
next:
    skip
  od;
dead:
  done[me] = true
}

/* When the writers are through and the readers sleep or are dead. */
#define RESTS(i) (done[i] || (asleep[i] && !killed[i] && socket == 0))
proctype judge() {
end:
  do
  :: atomic {
       done[0] && done[1] && RESTS(2) && RESTS(3) && (asleep[2] || asleep[3]) ->
         assert(head == tail || between > 0); /* P1 */
         break
     }
  :: atomic {
       (tail_owner == NOBODY || killed[tail_owner]) && (done[0] || !killed[0]) && (done[1] || !killed[1]) &&
           (head_owner == NOBODY) && !killed[2] && !killed[3] ->
         assert(head == tail || socket > 0 || between > 0); /* K */
         break
     }
  od
}

proctype killer() {
  byte kills, victim;
end:
  do
  :: kills < KILLS ->
    atomic {
      select(victim : 0 .. PROCESSES - 2); /* one reader lives */
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
    run writer(0);
    run writer(1);
    run reader(2);
    run reader(3);
    run judge();
    run killer()
  }
}
