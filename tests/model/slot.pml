/* A process's slot: claimed, adopted, reaped and claimed again, with a SIGKILL possible at every step.
 *
 * Follows src/domain/slots.cpp. The lock on the slot's byte belongs to a process until it dies, and the kernel
 * frees it then; the state word carries the generation.
 *
 * Checked
 *   S1  a reaper never takes away what a living process holds (assert in the reaper's hook)
 *   S2  no two living processes have the slot at one time
 *   S3  at the end the slot is the one of a living process, or free with nothing left of the dead
 *   S4  nobody alive waits for ever
 *
 * -DSEED=1 reaps without asking for the lock, -DSEED=2 claims without taking it: each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#define PROCESSES 3
#define REAPERS 2 /* processes 0 and 1 reap as well as claim */
#define KILLS 2
#define NOBODY 255
mtype = { FREE, NASCENT, LIVE, REAPING };

mtype state = FREE;
byte generation;
byte lock_owner = NOBODY;      /* of the slot's byte */
byte mutex_owner = NOBODY;     /* of the reapers' robust mutex */
byte holding[4];               /* what was entered for generation g (rights, in the code) */
bool killed[PROCESSES], done[PROCESSES];
byte has = NOBODY;             /* who believes that the slot is its own */

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }
#define LOCKED (lock_owner != NOBODY)

proctype process(byte me) {
  byte seen_generation, turns;
  mtype seen;
  bool mine;
  do
  :: turns < 2 ->
    turns++;
    /* claim_slot */
    atomic { seen = state; seen_generation = generation }
    if
    :: seen == FREE ->
      STEP(if
           :: SEED == 2 -> mine = true
           :: SEED != 2 && !LOCKED -> lock_owner = me; mine = true
           :: else -> mine = false
           fi);
      if
      :: mine ->
        STEP(if
             :: state == FREE && generation == seen_generation -> state = NASCENT
             :: else -> mine = false; if :: lock_owner == me -> lock_owner = NOBODY :: else fi
             fi)
      :: else
      fi;
      if
      :: mine ->
        STEP(assert(has == NOBODY || killed[has]); has = me); /* S2 */
        STEP(state = LIVE);
        STEP(holding[seen_generation] = holding[seen_generation] + 1);
        goto live
      :: else
      fi
    :: else
    fi;
    /* reap */
    if
    :: me < REAPERS ->
      atomic {
        if
        :: killed[me] -> goto dead
        :: !killed[me] && (mutex_owner == NOBODY || killed[mutex_owner]) -> mutex_owner = me
        fi
      }
      atomic { seen = state; seen_generation = generation }
      if
      :: seen != FREE && (seen == REAPING || SEED == 1 || !LOCKED) ->
        STEP(state = REAPING);
        STEP(assert(has == NOBODY || killed[has]); /* S1 */
             holding[seen_generation] = 0);
        STEP(has = NOBODY; state = FREE; generation = seen_generation + 1)
      :: else
      fi;
      STEP(mutex_owner = NOBODY)
    :: else
    fi
  :: else -> break
  od;
  done[me] = true;
  goto out;
live:
  done[me] = true;
end:
  killed[me];
dead:
  atomic {
    if :: lock_owner == me -> lock_owner = NOBODY :: else fi; /* the kernel, some time after the kill */
    done[me] = true
  }
out:
  skip
}

proctype judge() {
  byte g;
  byte owner;
end:
  atomic {
    done[0] && done[1] && done[2] && (has == NOBODY || !killed[has] || lock_owner == NOBODY);
    /* the last look, by a living process */
    if
    :: state != FREE && (state == REAPING || !LOCKED) ->
      assert(has == NOBODY || killed[has]);
      holding[generation] = 0;
      has = NOBODY;
      state = FREE;
      generation++
    :: else
    fi;
    assert(state == FREE || (state == LIVE && has != NOBODY)
           || (LOCKED && killed[lock_owner])); /* S3; or a death in this very moment */
    g = 0;
    do
    :: g < generation -> assert(holding[g] == 0); g++ /* S3 */
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
      kills++
    }
  :: break
  od
}

init {
  atomic {
    run process(0);
    run process(1);
    run process(2);
    run judge();
    run killer()
  }
}
