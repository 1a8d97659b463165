package traces

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The OTEL_ variables that this package reads. The SDK and its exporters also read others: the other
// OTEL_EXPORTER_OTLP_ variables, such as headers and certificates, the OTEL_BSP_ variables for the queue,
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
const (
	varEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	varTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	varTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	varExporter       = "OTEL_TRACES_EXPORTER"
	varDisabled       = "OTEL_SDK_DISABLED"
	varSampler        = "OTEL_TRACES_SAMPLER"
	varSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// ConfiguredByEnv reports whether OTEL_ variables configure an endpoint for traces.
func ConfiguredByEnv() bool {
	if strings.EqualFold(os.Getenv(varDisabled), "true") || cmp.Or(os.Getenv(varExporter), "otlp") != "otlp" {
		return false
	}
	return os.Getenv(varTracesEndpoint) != "" || os.Getenv(varEndpoint) != ""
}

type protocol string

// The protocols, as the variables name them.
const (
	protocolGRPC protocol = "grpc"
	protocolHTTP protocol = "http/protobuf"
)

// grpcPort is the usual port for OTLP over gRPC.
const grpcPort = "4317"

// protocolFromEnv returns the protocol that the environment names. If it names none, the protocol is HTTP, or
// gRPC if the port of the endpoint is grpcPort.
func protocolFromEnv() (protocol, error) {
	variable := varTracesProtocol
	if os.Getenv(variable) == "" {
		variable = varProtocol
	}
	name := os.Getenv(variable)
	switch protocol(name) {
	case protocolGRPC, protocolHTTP:
		return protocol(name), nil
	case "":
		u, err := url.Parse(cmp.Or(os.Getenv(varTracesEndpoint), os.Getenv(varEndpoint)))
		if err == nil && u.Port() == grpcPort {
			return protocolGRPC, nil
		}
		return protocolHTTP, nil
	}
	return "", fmt.Errorf("%s %q: want %s or %s", variable, name, protocolGRPC, protocolHTTP)
}

// An endpoint is the receiver of spans.
type endpoint struct {
	protocol protocol
	url      string // with the scheme http, or https for TLS
}

var errEndpoint = errors.New("not the URL of an OTLP endpoint: want grpc://host:4317 or http://host:4318, or grpcs:// or https:// for TLS")

// parseEndpoint parses the URL of an OTLP endpoint. For HTTP, the default path is /v1/traces.
func parseEndpoint(text string) (endpoint, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return endpoint{}, errEndpoint // the error must not contain text, which may have a password
	}
	to := endpoint{protocol: protocolHTTP}
	switch u.Scheme {
	case "http", "https":
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/traces"
		}
	case "grpc":
		to.protocol, u.Scheme = protocolGRPC, "http"
	case "grpcs":
		to.protocol, u.Scheme = protocolGRPC, "https"
	default:
		return endpoint{}, errEndpoint
	}
	if to.protocol == protocolGRPC && u.Port() == "" {
		u.Host += ":" + grpcPort
	}
	to.url = u.String()
	return to, nil
}

// CheckEndpoint returns an error if text is not the URL of an OTLP endpoint.
func CheckEndpoint(text string) error {
	_, err := parseEndpoint(text)
	return err
}

// ParseSampler returns a sampler for a ratio, from 0 to 1, of the traces that begin in this process. Other traces are
// sampled if the caller has sampled them.
func ParseSampler(text string) (sdktrace.Sampler, error) {
	ratio, err := parseRatio(text)
	if err != nil {
		return nil, err
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
}

func parseRatio(text string) (float64, error) {
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return 0, fmt.Errorf("%q is not a sampling ratio: want 0 to 1, such as 0.01", text)
	}
	return ratio, nil
}

// samplerFromEnv returns the sampler that the environment names. By default, it samples all traces, except those that a
// caller has not sampled.
func samplerFromEnv() (sdktrace.Sampler, error) {
	name, parentBased := strings.CutPrefix(cmp.Or(os.Getenv(varSampler), "parentbased_always_on"), "parentbased_")
	var s sdktrace.Sampler
	switch name {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := parseRatio(cmp.Or(os.Getenv(varSamplerArg), "1"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", varSamplerArg, err)
		}
		s = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("%s %q: want always_on, always_off or traceidratio, optionally with the prefix parentbased_",
			varSampler, os.Getenv(varSampler))
	}
	if parentBased {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}
