package config

import (
	"fmt"
	"reflect"
)

// copyFields copies all fields of the struct src to the fields with the same names of the struct that dst points to. It
// converts types that differ only in name. It panics if dst lacks a field, so that no setting of the file is ignored.
func copyFields(dst, src any) {
	copyStruct(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src))
}

func copyStruct(dst, src reflect.Value) {
	for i := range src.NumField() {
		name := src.Type().Field(i).Name
		field := dst.FieldByName(name)
		if !field.IsValid() {
			panic(fmt.Sprintf("config: %v has no field %s", dst.Type(), name)) // a test copies all structs
		}
		copyValue(field, src.Field(i))
	}
}

func copyValue(dst, src reflect.Value) {
	switch {
	case src.Type().AssignableTo(dst.Type()):
		dst.Set(src)
	case src.Kind() == reflect.Struct:
		copyStruct(dst, src)
	case src.Kind() == reflect.Pointer:
		if !src.IsNil() {
			target := reflect.New(dst.Type().Elem())
			copyValue(target.Elem(), src.Elem())
			dst.Set(target)
		}
	case src.Kind() == reflect.Slice:
		if src.IsNil() {
			return
		}
		target := reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
		for i := range src.Len() {
			copyValue(target.Index(i), src.Index(i))
		}
		dst.Set(target)
	default:
		dst.Set(src.Convert(dst.Type()))
	}
}
