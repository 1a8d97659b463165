package main

import "syscall"

const sighup = syscall.SIGHUP
