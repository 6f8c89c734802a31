/* A depot of kept blocks: put into, taken from, and given back to the ledger, with a SIGKILL possible at every
 * step.
 *
 * Follows src/arena/cache/depots.cpp. The holder word of a block's lease decides who has it; the depot is a stack
 * of cells under a robust lock, without a redo record. The ledger's own transactions (allocate, release, the
 * reaper's giving back) are steps here: message.pml and the step tests take them apart.
 *
 * Checked
 *   D1  who takes a block is alone with it (assert at the taking)
 *   D2  at the end each block is the ledger's, a living process's, or in a cell where a taker finds it
 *   D3  nobody alive waits for ever
 *
 * -DSEED=1 names the depot as holder before the cell is written, -DSEED=2 takes what a cell names without
 * asking for its holder, -DSEED=3 does not raise the top after a death: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 2
#endif
#define PROCESSES 3
#define BLOCKS 2
#define CELLS 2
#define TURNS 2
#define NOBODY 255
#define LEDGER 254 /* a free block's holder */
#define IN_CELL(c) (100 + (c))
#define NOTHING 255 /* in a cell that was never written */

byte cell[CELLS] = NOTHING;
byte top;
byte holder[BLOCKS] = LEDGER;
byte user[BLOCKS] = NOBODY; /* who believes that the block is its own: what the holder word is to guarantee */
byte mutex_owner = NOBODY;
bool killed[PROCESSES], done[PROCESSES];

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> skip; action \
    fi \
  }
#define MAY_USE(b) assert(user[b] == NOBODY || killed[user[b]]) /* D1 */

/* lock_depot(): whoever finds that the last owner died looks whether its block lies just above the top. */
inline lock() {
  atomic {
    if
    :: killed[me] -> goto dead
    :: !killed[me] && (mutex_owner == NOBODY || killed[mutex_owner]) ->
      died = (mutex_owner != NOBODY);
      mutex_owner = me
    fi
  }
  if
  :: died && SEED != 3 && top < CELLS && cell[top] != NOTHING && holder[cell[top]] == IN_CELL(top) ->
    STEP(top = top + 1)
  :: else
  fi;
  died = false
}

proctype process(byte me) {
  byte turns;
  byte b = NOTHING;
  bool died;
  do
  :: turns < TURNS ->
    turns++;
    if
    :: holder[0] == LEDGER || holder[1] == LEDGER -> skip; /* allocate from the ledger */
      atomic {
        if
        :: killed[me] -> goto dead
        :: else -> skip;
          if
          :: holder[0] == LEDGER -> MAY_USE(0); holder[0] = me; user[0] = me
          :: holder[1] == LEDGER -> MAY_USE(1); holder[1] = me; user[1] = me
          :: else
          fi
        fi
      }
    :: holder[0] == me || holder[1] == me -> /* pass_on */
      STEP(if
           :: holder[0] == me -> b = 0
           :: holder[1] == me -> b = 1
           :: else
           fi);
      if
      :: b != NOTHING ->
        lock();
        if
        :: top < CELLS && SEED != 1 ->
          STEP(cell[top] = b);
          STEP(holder[b] = IN_CELL(top); user[b] = NOBODY);
          STEP(top = top + 1)
        :: top < CELLS && SEED == 1 ->
          STEP(holder[b] = IN_CELL(top); user[b] = NOBODY);
          STEP(cell[top] = b);
          STEP(top = top + 1)
        :: else
        fi;
        STEP(mutex_owner = NOBODY)
      :: else
      fi
    :: top > 0 -> skip; /* fetch */
      lock();
      do
      :: top > 0 ->
        STEP(b = cell[top - 1]);
        if
        :: SEED == 2 || holder[b] == IN_CELL(top - 1) ->
          STEP(MAY_USE(b); holder[b] = me; user[b] = me);
          STEP(top = top - 1);
          break
        :: else -> skip; STEP(top = top - 1) /* its taker was killed, and the reaper has given it back */
        fi
      :: else -> break
      od;
      skip;
      STEP(mutex_owner = NOBODY)
    :: else
    fi;
    b = NOTHING
  :: else -> break
  od;
  done[me] = true;
end:
  killed[me];
dead:
  done[me] = true
}

/* Whatever a dead process holds goes back; not under the depot's lock. */
proctype reaper() {
end:
  do
  :: atomic { holder[0] < PROCESSES && killed[holder[0]] -> holder[0] = LEDGER; user[0] = NOBODY }
  :: atomic { holder[1] < PROCESSES && killed[holder[1]] -> holder[1] = LEDGER; user[1] = NOBODY }
  od
}

proctype judge() {
  byte b;
end:
  atomic {
    done[0] && done[1] && done[2];
    /* the next who gets the lock */
    if
    :: (mutex_owner != NOBODY && SEED != 3 && top < CELLS && cell[top] != NOTHING &&
        holder[cell[top]] == IN_CELL(top)) -> top++
    :: else
    fi;
    b = 0;
    do
    :: b < BLOCKS ->
      assert(holder[b] == LEDGER || holder[b] < PROCESSES
             || (holder[b] - 100 < top && cell[holder[b] - 100] == b)); /* D2 */
      assert(holder[b] != LEDGER || user[b] == NOBODY);
      b++
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
      killed[victim] = true;
      kills++;
      victim = 0
    }
  :: break
  od
}

init {
  atomic {
    run process(0);
    run process(1);
    run process(2);
    run reaper();
    run judge();
    run killer()
  }
}
