"""What a command is: its parts, its executable, its libraries and its MPI."""
