// A box's first process that only echoes, and the program that joins a wire to it.

/** Echoes what comes over a socket, as a first process that listens does; `end` ends it with 7. */
const FIRST = `
const net = require('node:net');
process.on('SIGTERM', () => process.exit(0));
net.createServer((socket) => {
  socket.on('data', (data) => { if (String(data).trim() === 'end') process.exit(7); socket.write(data); });
  socket.on('error', () => {});
}).listen(process.argv[1]);`;
const BRIDGE = `
const connect = (tries) => {
  const socket = require('node:net').connect(process.argv[1]);
  socket.on('error', (error) => (tries > 0 ? setTimeout(connect, 50, tries - 1) : process.exit(1)));
  socket.on('connect', () => { process.stdin.pipe(socket); socket.pipe(process.stdout); });
};
connect(100);`;
const SOCKET = '/tmp/first.sock';
export const FIRST_ARGV = ['node', '-e', FIRST, SOCKET];
export const BRIDGE_ARGV = ['node', '-e', BRIDGE, SOCKET];
