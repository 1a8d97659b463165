// Package nonblock reads and writes non-blocking sockets. On Linux, it calls the kernel without telling the Go
// scheduler. This is faster, and it is safe because such a call never blocks the thread.
package nonblock
