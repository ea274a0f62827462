// One clock for all daemons of a database: the database's (ARCHITECTURE.md#what-is-not-there). What one daemon writes
// another compares with its own time, and with the database's; a machine whose clock is off changes nothing for others
// that way. Between two looks at the server's time it goes on by the machine's steady clock.

export class SharedClock {
  readonly #steadyMs: () => number;
  /** What the steady clock lacks. */
  #offsetMs: number;

  /** Both in milliseconds; `machineMs` is asked once, for what is timed before the server was heard. */
  constructor(machineMs: () => number = Date.now, steadyMs: () => number = () => performance.now()) {
    this.#steadyMs = steadyMs;
    this.#offsetMs = machineMs() - steadyMs();
  }

  readonly now = (): Date => new Date(this.#steadyMs() + this.#offsetMs);

  /**
   * Asks for the server's time (milliseconds since 1970) and goes by it from then on; answers with by how much this clock
   * was off. The server told its time at some moment between question and answer: a clock that was right at one of them
   * stays as it is, so that it does not jump back and forth by what the network takes.
   */
  async learn(ask: () => Promise<number>): Promise<number> {
    const askedAt = this.#steadyMs();
    const serverMs = await ask();
    const answeredAt = this.#steadyMs();
    const [least, most] = [serverMs - answeredAt, serverMs - askedAt];
    if (this.#offsetMs >= least && this.#offsetMs <= most) return 0;
    const offMs = this.#offsetMs - (least + most) / 2;
    this.#offsetMs = (least + most) / 2;
    return offMs;
  }
}
