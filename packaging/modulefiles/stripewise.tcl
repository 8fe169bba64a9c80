#%Module1.0
# Environment Modules: install this file as stripewise/VERSION in a folder of MODULEPATH; its name is the version.
# The folder of that version has bin/stripewise and nothing else on the path: packaging/README.md says how to make it.
set version [file tail [module-info name]]
set root /opt/stripewise/$version

proc ModulesHelp { } {
    puts stderr "Auto-tuner for the parallel I/O of MPI programs: it measures, proves and applies better settings."
    puts stderr "Start with: stripewise doctor, then stripewise tune -- COMMAND."
}
module-whatis "Stripewise $version: auto-tuner for the parallel I/O of MPI programs"

conflict stripewise
prepend-path PATH $root/bin
