module github.com/headgate/headgate/examples/library

go 1.26.0

require github.com/headgate/headgate v0.1.0

replace github.com/headgate/headgate => ../..
