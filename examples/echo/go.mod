module github.com/headgate/headgate/examples/echo

go 1.26.0

replace (
	github.com/headgate/headgate => ../../
	github.com/headgate/headgate/rules/file => ../../rules/file
)

require (
	github.com/headgate/headgate v0.1.0
	github.com/headgate/headgate/rules/file v0.1.0
	github.com/labstack/echo/v4 v4.16.0
)

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
