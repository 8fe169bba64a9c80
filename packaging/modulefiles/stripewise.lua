-- Lmod: install this file as stripewise/VERSION.lua in a folder of MODULEPATH; its name is the version.
-- The folder of that version has bin/stripewise and nothing else on the path: packaging/README.md says how to make it.
local version = myModuleVersion()
local root = pathJoin("/opt/stripewise", version)

help([[Auto-tuner for the parallel I/O of MPI programs: it measures, proves and applies better settings.
Start with: stripewise doctor, then stripewise tune -- COMMAND.]])
whatis("Name: Stripewise")
whatis("Version: " .. version)
whatis("Category: tools, parallel I/O")
whatis("Description: auto-tuner for the parallel I/O of MPI programs")

conflict("stripewise")
prepend_path("PATH", pathJoin(root, "bin"))
