// A failure of a request that may pass.

/** A failure that another attempt may mend. */
export class Passing extends Error {
  /**
   * @param {string} message
   * @param {number} [wait] ms that the server asks for
   */
  constructor(message, wait = 0) {
    super(message);
    this.wait = wait;
  }
}
