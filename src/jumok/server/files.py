def suffix_of(name):
    return "." + name.rpartition(".")[2]
