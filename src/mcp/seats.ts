// How many calls may wait for people at once (contract 6.1.5): a waiting call holds a socket, so a client that accepts
// and never finishes must not be able to hold them all.

export const WAITS_PER_CLIENT_MAX = 5;
export const WAITS_MAX = 1_000;

export interface Seats {
  /** Null: none is free. The returned function gives the seat back, once. */
  take(person: string, client: string): (() => void) | null;
}

export function createSeats(): Seats {
  const taken = new Map<string, number>();
  let total = 0;
  return {
    take(person, client) {
      const who = JSON.stringify([person, client]);
      const held = taken.get(who) ?? 0;
      if (held >= WAITS_PER_CLIENT_MAX || total >= WAITS_MAX) return null;
      taken.set(who, held + 1);
      total += 1;
      let given = false;
      return () => {
        if (given) return;
        given = true;
        total -= 1;
        const rest = (taken.get(who) ?? 1) - 1;
        if (rest === 0) taken.delete(who);
        else taken.set(who, rest);
      };
    },
  };
}
