package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// configFlag is the flag that names a file with other flags.
const configFlag = "config"

func addConfigFlag(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "YAML `file` with flags by name, such as \"listen: 0.0.0.0:6443\"; the command line and the environment take precedence")
}

// setFromFile sets each flag that is set neither on the command line nor in the environment from the file of --config, if there is
// one. A list sets a flag several times, and a map once for each key, as key=value.
func setFromFile(flags *pflag.FlagSet) error {
	named := flags.Lookup(configFlag)
	if named == nil || named.Value.String() == "" {
		return nil
	}
	file := named.Value.String()
	text, err := os.ReadFile(file)
	if err != nil {
		return usagef("--config: %w", err)
	}
	values, err := parseConfig(text)
	if err != nil {
		return usagef("--config: %s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f := flags.Lookup(name)
		if f == nil || name == configFlag || name == "help" {
			return usagef("--config: %s: there is no flag --%s", file, name)
		}
		if f.Changed {
			continue
		}
		if n := len(values[name]); n > 1 && !repeats(f) {
			return usagef("--config: %s: --%s takes one value, not %d: write it as on the command line", file, name, n)
		}
		for _, value := range values[name] {
			if value == "" && f.Value.String() == "[]" {
				continue // an empty list, which some list flags do not accept as one
			}
			if err := flags.Set(name, value); err != nil {
				return usagef("--config: %s: %w", file, err)
			}
		}
	}
	return nil
}

// repeats tells whether a flag may be set several times: for any other flag, all but the last value would be lost silently.
func repeats(f *pflag.Flag) bool {
	if _, ok := f.Value.(pflag.SliceValue); ok {
		return true
	}
	return slices.Contains([]string{"mapStringBool", "mapStringString", "stringToString", "namedCertKey"}, f.Value.Type())
}

// parseConfig returns the values of each flag in the file. A key without a value is ignored, and an empty list is one empty value.
func parseConfig(text []byte) (map[string][]string, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	if !oneDocument(text) {
		return nil, errors.New("it has several documents, with --- between them: put all into one")
	}
	var content map[string]any
	numbers := json.NewDecoder(bytes.NewReader(asJSON))
	numbers.UseNumber() // 1000000 is not 1e+06
	if err := numbers.Decode(&content); err != nil {
		return nil, fmt.Errorf("it is no map from flags to values: %w", err)
	}
	values := map[string][]string{}
	for name, value := range content {
		if value == nil {
			continue
		}
		if values[name], err = configValues(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return values, nil
}

// oneDocument tells whether the documents after the first one are empty, since only the first is read.
func oneDocument(text []byte) bool {
	documents := yamlv2.NewDecoder(bytes.NewReader(text))
	for first := true; ; first = false {
		var content any
		if err := documents.Decode(&content); err != nil {
			return errors.Is(err, io.EOF)
		}
		if !first && content != nil {
			return false
		}
	}
}

func configValues(value any) ([]string, error) {
	switch value := value.(type) {
	case []any:
		if len(value) == 0 {
			return []string{""}, nil
		}
		all := make([]string, len(value))
		for i, v := range value {
			one, err := configScalar(v)
			if err != nil {
				return nil, err
			}
			all[i] = one
		}
		return all, nil
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			one, err := configScalar(value[key])
			if err != nil {
				return nil, err
			}
			all = append(all, key+"="+one)
		}
		return all, nil
	default:
		one, err := configScalar(value)
		return []string{one}, err
	}
}

func configScalar(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case json.Number, bool:
		return fmt.Sprint(value), nil
	case nil:
		return "", errors.New("a flag has no such value: null")
	case []any:
		return "", errors.New("a flag has no such value: a list")
	default: // the content may be secret
		return "", errors.New("a flag has no such value: a map")
	}
}
