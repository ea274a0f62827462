'use strict';
// Joins its standard streams to the socket of a box's first process: `node -e SOURCE PATH`. Ends with either of them. The
// first process may just have been started: for some seconds it is waited for.
const path = process.argv[1].replace(/^@/, '\0');
const until = Date.now() + 5000;
const end = () => process.exit(0);
const join = (socket) => {
  socket.on('error', end).on('close', end);
  process.stdin.pipe(socket);
  socket.pipe(process.stdout);
};
const dial = () => {
  const socket = require('node:net').connect(path);
  const failed = () => (Date.now() < until ? setTimeout(dial, 5) : end());
  socket.once('error', failed).once('connect', () => join(socket.off('error', failed)));
};
process.stdin.on('error', end).on('close', end);
process.stdout.on('error', end);
dial();
