/* A condition's notification is a ticket that is passed on when its holder dies before it has taken it
 * (src/locks/condition.cpp, table.cpp: reap_cell). A SIGKILL is possible at every step of waiters, notifier and
 * reapers; a reaper that dies is followed by another.
 *
 * Each waiter has one record here; enrolling and leaving change it in one step, as the ledger's redo record
 * makes them. The lock that guards the condition is not modelled: notifying is safe without it.
 *
 * Checked
 *   N1  no notification is lost: when all is quiet and somebody alive still waits, as many waits have ended as
 *       were notified, but for tickets of the dead for which nobody waited (more only where a reaper died and the next one passed the same ticket on again)
 *   N2  a wait ends by a notification, its time or a death, and by nothing else
 *
 * -DSEED=1 frees the record of the dead without passing its ticket on, -DSEED=2 clears the ticket before it was
 * passed on, -DSEED=3 lets a waiter whose time is over drop a notification that came with it, -DSEED=4
 * clears a ticket without looking whether somebody notified it meanwhile (the code once did): each must be found.
 */
#ifndef SEED
#define SEED 0
#endif
#ifndef KILLS
#define KILLS 2
#endif
#define WAITERS 3
#define REAPERS 2 /* processes WAITERS and WAITERS + 1 */
#define PROCESSES 5
#ifndef NOTIFICATIONS
#define NOTIFICATIONS 1 /* with 2 it holds as well, in 17 million states */
#endif
mtype = { IDLE, WAITING, NOTIFIED };

mtype ticket[WAITERS] = IDLE;
bool enrolled[WAITERS], killed[PROCESSES], done[PROCESSES];
byte given;     /* tickets that a notifier (not a reaper) changed to NOTIFIED */
byte passed_on; /* by reapers */
byte dropped;   /* by reapers, since nobody waited at that time */
byte unheard;
byte taken;     /* waits that ended with a notification, whoever died later */
bool notified_all;
byte reap_owner = 255; /* the reapers' robust mutex */

#define STEP(action) \
  atomic { \
    if \
    :: killed[me] -> goto dead \
    :: else -> action \
    fi \
  }

/* One waiter that is still waiting when its ticket is changed; nobody where there is none. */
inline notify_one(count, none) {
  if
  :: ticket[0] == WAITING && enrolled[0] -> ticket[0] = NOTIFIED; count++
  :: ticket[1] == WAITING && enrolled[1] -> ticket[1] = NOTIFIED; count++
  :: ticket[2] == WAITING && enrolled[2] -> ticket[2] = NOTIFIED; count++
  :: else -> none++
  fi
}

proctype waiter(byte me) {
  bool timed = false;
  STEP(enrolled[me] = true);
  STEP(ticket[me] = WAITING);
end:
  atomic {
    if
    :: killed[me] -> goto dead
    :: !killed[me] && ticket[me] == NOTIFIED
    :: !killed[me] && me == 0 -> timed = true /* the first one has a time-out */
    fi
  }
  if
  :: timed ->
    atomic {
      if
      :: killed[me] -> goto dead
      :: !killed[me] && ticket[me] == WAITING -> ticket[me] = IDLE
      :: !killed[me] && ticket[me] == NOTIFIED ->
#if SEED == 3
        skip
#else
        taken++ /* good for one whose time is over */
#endif
      fi
    }
  :: else -> STEP(assert(ticket[me] == NOTIFIED); taken++) /* N2 */
  fi;
  STEP(ticket[me] = IDLE);
  STEP(enrolled[me] = false);
dead:
  done[me] = true
}

proctype notifier() {
  byte left = NOTIFICATIONS;
  do
  :: left > 0 -> atomic { notify_one(given, unheard) }; left--
  :: else -> break
  od;
  notified_all = true
}

#define DEAD(i) (killed[i] && enrolled[i])

/* Reaps whenever there is somebody to reap. The first reaper may be killed, the second is not. */
proctype reaper(byte me) {
  byte p;
  bool notified, cleared;
  mtype seen;
end:
  do
  :: atomic {
       killed[me] || ((DEAD(0) || DEAD(1) || DEAD(2)) && (reap_owner == 255 || killed[reap_owner])) ->
         if
         :: killed[me] -> goto dead
         :: else -> reap_owner = me
         fi
     }
     p = 0;
     do
     :: p < WAITERS ->
       if
       :: DEAD(p) ->
#if SEED == 2
         STEP(notified = (ticket[p] == NOTIFIED); ticket[p] = IDLE);
         if
         :: notified -> STEP(notify_one(passed_on, dropped))
         :: else
         fi;
#elif SEED != 1
         do
         :: true ->
           STEP(seen = ticket[p]);
           if
           :: seen == NOTIFIED -> STEP(notify_one(passed_on, dropped))
           :: else
           fi;
#if SEED == 4
           STEP(ticket[p] = IDLE; cleared = true);
#else
           STEP(cleared = (ticket[p] == seen);
                if :: cleared -> ticket[p] = IDLE :: else fi);
#endif
           if
           :: cleared -> break
           :: else
           fi
         od;
#endif
         STEP(enrolled[p] = false)
       :: else
       fi;
       p++
     :: else -> break
     od;
     STEP(reap_owner = 255)
  od;
dead:
  done[me] = true
}

/* Nobody is about to act: the living are through or wait, the dead are reaped. */
#define SETTLED(i) (done[i] || (!killed[i] && ticket[i] == WAITING))
#define WAITS(i) (!killed[i] && !done[i])
proctype judge() {
end:
  atomic {
    notified_all && SETTLED(0) && SETTLED(1) && SETTLED(2) && !DEAD(0) && !DEAD(1) && !DEAD(2) &&
        (WAITS(0) || WAITS(1) || WAITS(2)) && (reap_owner == 255 || killed[reap_owner]) ->
      /* Somebody alive waits: whatever was given has ended a wait, or there was nobody to end it for. */
      assert(taken + dropped >= given) /* N1 */
  }
}

proctype killer() {
  byte kills, victim;
end:
  do
  :: kills < KILLS ->
    atomic {
      select(victim : 0 .. WAITERS);
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
    run waiter(0);
    run waiter(1);
    run waiter(2);
    run notifier();
    run reaper(3);
    run reaper(4);
    run judge();
    run killer()
  }
}
