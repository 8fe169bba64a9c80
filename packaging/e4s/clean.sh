#!/bin/bash
rm -rf home native.json seen.json quick.csv quick.toml out.dat
