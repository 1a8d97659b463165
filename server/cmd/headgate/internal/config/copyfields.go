package config

import (
	"fmt"
	"reflect"
)

// copyFields copies all fields of the struct from to the fields with the same names of the struct that into points to.
// It converts types that differ only in name. It panics if into lacks a field, so that no setting of the file is
// ignored.
func copyFields(into, from any) {
	copyStruct(reflect.ValueOf(into).Elem(), reflect.ValueOf(from))
}

func copyStruct(into, from reflect.Value) {
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		field := into.FieldByName(name)
		if !field.IsValid() {
			panic(fmt.Sprintf("config: %v has no field %s", into.Type(), name)) // a test copies all structs
		}
		copyValue(field, from.Field(i))
	}
}

func copyValue(into, from reflect.Value) {
	switch {
	case from.Type().AssignableTo(into.Type()):
		into.Set(from)
	case from.Kind() == reflect.Struct:
		copyStruct(into, from)
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			target := reflect.New(into.Type().Elem())
			copyValue(target.Elem(), from.Elem())
			into.Set(target)
		}
	case from.Kind() == reflect.Slice:
		if from.IsNil() {
			return
		}
		target := reflect.MakeSlice(into.Type(), from.Len(), from.Len())
		for i := range from.Len() {
			copyValue(target.Index(i), from.Index(i))
		}
		into.Set(target)
	default:
		into.Set(from.Convert(into.Type()))
	}
}
